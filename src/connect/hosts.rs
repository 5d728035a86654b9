//! The hosts of a connection string.

use std::fmt;
use std::net::IpAddr;

use super::parameters::{Environment, Parameters};

/// One address of a server.
#[derive(Debug, PartialEq)]
pub(super) struct Host {
    /// A name, an address, or the directory of a Unix socket.
    pub(super) name: String,
    /// Where to connect instead of looking the name up.
    pub(super) address: Option<IpAddr>,
    pub(super) port: u16,
}

impl Host {
    /// Pairs up the lists of hosts, addresses and ports; at least one host comes out.
    pub(super) fn list(parameters: &Parameters, environment: &Environment) -> Result<Vec<Self>, String> {
        let list = |key| parameters.get(key).map(|list| list.split(',').map(str::trim).collect());
        let addresses: Vec<&str> = list("hostaddr").unwrap_or_default();
        let names = list("host").unwrap_or_else(|| vec![""; addresses.len().max(1)]);
        let ports = list("port").unwrap_or_else(|| vec![""]);
        if !addresses.is_empty() && addresses.len() != names.len() {
            return Err(parameters.wrong("hostaddr", "must have as many entries as host"));
        }
        if ports.len() != 1 && ports.len() != names.len() {
            return Err(parameters.wrong("port", "must have one entry, or as many as host"));
        }
        let host = |(i, name): (usize, &&str)| {
            let address = addresses.get(i).filter(|address| !address.is_empty());
            let address = address.map(|address| address.parse()).transpose();
            let address = address.map_err(|_| parameters.wrong("hostaddr", "must be an IP address"))?;
            let port = port(ports[i % ports.len()]);
            let port = port.ok_or_else(|| parameters.wrong("port", "must be a number from 1 to 65535"))?;
            Ok(Host::new(name, address, port, environment))
        };
        names.iter().enumerate().map(host).collect()
    }

    fn new(name: &str, address: Option<IpAddr>, port: u16, environment: &Environment) -> Self {
        let name = match address {
            _ if !name.is_empty() => name.to_owned(),
            // Also the name that a certificate has to bear.
            Some(address) => address.to_string(),
            None => environment.socket_directory.display().to_string(),
        };
        Host { name, address, port }
    }

    pub(super) fn is_socket(&self) -> bool {
        self.address.is_none() && self.name.starts_with('/')
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Host { name, address, port } = self;
        match address {
            _ if self.is_socket() => write!(f, "{name}/.s.PGSQL.{port}"),
            Some(address) if address.to_string() != *name => write!(f, "{name} ({address}), port {port}"),
            _ => write!(f, "{name}, port {port}"),
        }
    }
}

fn port(text: &str) -> Option<u16> {
    match text {
        "" => Some(5432),
        text => text.parse().ok().filter(|port| *port != 0),
    }
}
