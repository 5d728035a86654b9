//! Servers that listen on TCP: without TLS, and with a certificate from an authority of our own.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::PathBuf;
use std::sync::LazyLock;

use doorbell::{DatabaseBuilder, embedded};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use tempfile::TempDir;

/// A server with `ssl = off`.
pub(super) static PLAIN: LazyLock<Server> = LazyLock::new(Server::start);

/// A server on a loopback port.
pub(super) struct Server {
    server: embedded::Server,
    /// For certificates.
    dir: TempDir,
}

impl Server {
    fn start() -> Self {
        let server = embedded::Server::builder().port(0).fast_and_fragile().start().unwrap();
        let dir = TempDir::new().unwrap();
        Server { server, dir }
    }

    /// A server whose certificate is for `localhost`, with settings of its own besides. `root.crt` is the authority
    /// behind it, `other.crt` one that only has the same name.
    pub(super) async fn with_tls(settings: &str) -> Self {
        let this = Server::start();
        let (root, other) = (Authority::new(), Authority::new());
        fs::write(this.file("root.crt"), root.pem()).unwrap();
        fs::write(this.file("other.crt"), other.pem()).unwrap();
        let (certificate, key) = root.issue("localhost");
        this.give("server.crt", &certificate);
        this.give("server.key", &key);
        this.give("root.crt", root.pem());
        for (name, authority) in [("client", &root), ("stranger", &other)] {
            let (certificate, key) = authority.issue("postgres");
            fs::write(this.file(&format!("{name}.crt")), certificate).unwrap();
            fs::write(this.file(&format!("{name}.key")), key).unwrap();
            fs::set_permissions(this.file(&format!("{name}.key")), Permissions::from_mode(0o600)).unwrap();
        }
        // The names are those that PostgreSQL looks for. Not set at the start: the data directory is not there yet.
        let admin = crate::support::connect(&this.server.url("postgres")).await;
        for setting in settings.split(';').filter(|setting| !setting.is_empty()) {
            admin
                .batch_execute(&format!("ALTER SYSTEM SET {setting}"))
                .await
                .unwrap();
        }
        admin.batch_execute("ALTER SYSTEM SET ssl = on").await.unwrap();
        admin.batch_execute("SELECT pg_reload_conf()").await.unwrap();
        this
    }

    pub(super) fn port(&self) -> u16 {
        self.server.port().unwrap()
    }

    pub(super) fn password(&self) -> String {
        let url = self.server.loopback_url("postgres").unwrap();
        let (credentials, _) = url.split_once('@').unwrap();
        credentials.rsplit_once(':').unwrap().1.to_owned()
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Lets nobody in over TLS who has no certificate, instead of a password, with the role's name.
    pub(super) async fn wants_certificates(&self) {
        self.give("pg_hba.conf", "local all all trust\nhostssl all all all cert\n");
        let admin = crate::support::connect(&self.server.url("postgres")).await;
        admin
            .batch_execute("ALTER SYSTEM SET ssl_ca_file = 'root.crt'")
            .await
            .unwrap();
        admin.batch_execute("SELECT pg_reload_conf()").await.unwrap();
    }

    /// Puts a file into the data directory, as the server's own.
    fn give(&self, name: &str, contents: &str) {
        let data = self.server.data_dir().join("data");
        let owner = fs::metadata(&data).unwrap();
        let file = data.join(name);
        fs::write(&file, contents).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        chown(&file, Some(owner.uid()), Some(owner.gid())).unwrap();
    }
}

/// Who signs certificates.
struct Authority(Issuer<'static, KeyPair>, String);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Authority(Issuer::new(params, key), pem)
    }

    fn pem(&self) -> &str {
        &self.1
    }

    /// A certificate and its key.
    fn issue(&self, host: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![host.to_owned()]).unwrap();
        // What the server compares with the role's name.
        params.distinguished_name.push(DnType::CommonName, host);
        (params.signed_by(&key, &self.0).unwrap().pem(), key.serialize_pem())
    }
}

/// The one value that a query answers with, over a connection of a pool.
pub(super) async fn one(builder: &DatabaseBuilder, query: &str) -> String {
    let database = builder.clone().build().unwrap();
    let client = database.client().await.unwrap();
    client.query_one(query, &[]).await.unwrap().try_get(0).unwrap()
}
