//! TLS for webhooks: settings of our own, so that no process-wide provider need be installed.

use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore, crypto};

use crate::Error;

/// The system's root certificates, or those in the places that `SSL_CERT_FILE` and `SSL_CERT_DIR` name.
pub(super) fn system_roots() -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    match roots.is_empty() {
        true => Err(Error::config(
            "url: https needs root certificates and this system has none: install ca-certificates, or name a file in SSL_CERT_FILE",
        )),
        false => Ok(roots),
    }
}

pub(super) fn client_config(roots: RootCertStore) -> Result<ClientConfig, Error> {
    let mut config = ClientConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::config("TLS cannot be set up").because(error))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}
