//! TLS to the server through rustls, with ring given explicitly: nothing is installed for the process.

use std::error::Error as _;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::settings::Settings;
use super::trust::{Roots, Trust};
use crate::Error;

pub(super) type Tls = MakeRustlsConnect;

/// What makes the TLS sessions of these settings. It is not used where `sslmode` or a Unix socket rules TLS out.
pub(super) fn connector(settings: &Settings) -> Result<Tls, Error> {
    let provider = Arc::new(ring::default_provider());
    let verifier = Verifier::new(&settings.trust, &provider)?;
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::config("TLS cannot be set up").because(error))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    let mut config = match &settings.identity {
        None => config.with_no_client_auth(),
        Some(identity) => {
            let (certificates, key) = (read_pem("sslcert", &identity.certificate)?, read_key(&identity.key)?);
            let failed = |error| Error::config("sslcert and sslkey cannot be used").because(error);
            config.with_client_auth_cert(certificates, key).map_err(failed)?
        }
    };
    // Needed by sslnegotiation=direct, and libpq names it always.
    config.alpn_protocols = vec![b"postgresql".to_vec()];
    Ok(MakeRustlsConnect::new(config))
}

/// Whether the handshake failed, as opposed to the network or the session. With `sslmode` prefer the connection then
/// goes on in plain text.
pub(super) fn is_handshake_failure(error: &tokio_postgres::Error) -> bool {
    let cause = error.source().and_then(|cause| cause.downcast_ref::<io::Error>());
    cause
        .and_then(io::Error::get_ref)
        .is_some_and(|cause| cause.is::<rustls::Error>())
}

/// Judges a server's certificate by libpq's rules, which rustls does not have: it may count for nothing, or its chain
/// may count and its name not.
///
/// The handshake's signature is always checked, so that the peer owns the certificate it shows: channel binding relies
/// on it even where the certificate itself counts for nothing.
#[derive(Debug)]
struct Verifier {
    /// `None`: any certificate will do.
    anchors: Option<Anchors>,
    check_name: bool,
    algorithms: WebPkiSupportedAlgorithms,
}

/// Certificates that are trusted.
#[derive(Debug)]
struct Anchors {
    roots: RootCertStore,
    /// The same ones again: a server may show one of them as its own, if it signed itself. OpenSSL takes that, webpki
    /// does not take a root in that place.
    pinned: Vec<CertificateDer<'static>>,
}

impl Verifier {
    fn new(trust: &Trust, provider: &CryptoProvider) -> Result<Self, Error> {
        let (anchors, check_name) = match trust {
            Trust::Anyone => (None, false),
            Trust::Chain(roots) => (Some(Anchors::load(roots)?), false),
            Trust::ChainAndName(roots) => (Some(Anchors::load(roots)?), true),
        };
        Ok(Verifier {
            anchors,
            check_name,
            algorithms: provider.signature_verification_algorithms,
        })
    }
}

impl Anchors {
    fn load(from: &Roots) -> Result<Self, Error> {
        let mut roots = RootCertStore::empty();
        let pinned = match from {
            Roots::File(file) => read_pem("sslrootcert", file)?,
            Roots::System => rustls_native_certs::load_native_certs().certs,
        };
        roots.add_parsable_certificates(pinned.iter().cloned());
        if roots.is_empty() {
            return Err(match from {
                Roots::File(file) => Error::config(format!("sslrootcert {file:?} has no certificate in it")),
                Roots::System => Error::config("the system has no root certificates; name a file with sslrootcert"),
            });
        }
        Ok(Anchors { roots, pinned })
    }
}

fn read_pem(parameter: &str, file: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let unread = || Error::config(format!("{parameter} {file:?} cannot be read"));
    if !file.metadata().map_err(|error| unread().because(error))?.is_file() {
        return Err(Error::config(format!("{parameter} {file:?} is not a file")));
    }
    let certificates: Vec<_> = CertificateDer::pem_file_iter(file)
        .and_then(Iterator::collect)
        .map_err(|error| unread().because(error))?;
    if certificates.is_empty() {
        return Err(Error::config(format!(
            "{parameter} {file:?} has no certificate in it (PEM is read, DER is not)"
        )));
    }
    Ok(certificates)
}

fn read_key(file: &Path) -> Result<PrivateKeyDer<'static>, Error> {
    let unread = || Error::config(format!("sslkey {file:?} cannot be read"));
    if is_open_to_others(file).map_err(|error| unread().because(error))? {
        let mend = "others may read it; chmod 0600, or 0640 if it is root's";
        return Err(Error::config(format!("sslkey {file:?} is not used: {mend}")));
    }
    PrivateKeyDer::from_pem_file(file).map_err(|error| unread().because(error))
}

/// Whether others may read a key, whom libpq would not let read it either.
fn is_open_to_others(key: &Path) -> io::Result<bool> {
    let metadata = key.metadata()?;
    let forbidden = if metadata.uid() == 0 { 0o037 } else { 0o077 };
    Ok(metadata.mode() & forbidden != 0)
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(anchors) = &self.anchors else {
            return Ok(ServerCertVerified::assertion());
        };
        let certificate = ParsedCertificate::try_from(end_entity)?;
        if !anchors.pinned.contains(end_entity) {
            let algorithms = self.algorithms.all;
            verify_server_cert_signed_by_trust_anchor(&certificate, &anchors.roots, intermediates, now, algorithms)?;
        }
        if self.check_name {
            verify_server_name(&certificate, server_name)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a certificate that signed itself is taken when it is the only root.
    fn verdict(certificate: &rcgen::Certificate, host: &'static str, check_name: bool) -> Result<(), rustls::Error> {
        let mut roots = RootCertStore::empty();
        roots.add(certificate.der().clone()).unwrap();
        let verifier = Verifier {
            anchors: Some(Anchors {
                roots,
                pinned: vec![certificate.der().clone()],
            }),
            check_name,
            algorithms: ring::default_provider().signature_verification_algorithms,
        };
        let name = ServerName::try_from(host).unwrap();
        let verdict = verifier.verify_server_cert(certificate.der(), &[], &name, &[], UnixTime::now());
        verdict.map(drop)
    }

    #[test]
    fn a_certificate_that_signed_itself_may_be_its_own_root() {
        let mut params = rcgen::CertificateParams::new(vec!["db".to_owned()]).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap();
        assert!(verdict(&certificate, "db", true).is_ok());
        assert!(verdict(&certificate, "other", true).is_err());
        assert!(verdict(&certificate, "other", false).is_ok());
    }
}
