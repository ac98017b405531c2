//! A server with API keys.

use crate::server::{Server, Setup};
use crate::wire::Client;
use cuckood::access::file::NewKey;
use cuckood::access::keys::ApiKeys;
use cuckood::access::token::Token;
use cuckood::access::{Scope, file};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tempfile::TempDir;

pub(crate) struct Keyed {
    pub(crate) server: Server,
    ring: Arc<ApiKeys>,
    folder: TempDir,
}

impl Keyed {
    /// A server, and a key that may do everything; each key may ask so many times
    /// a second.
    pub(crate) fn start(per_second: Option<u32>) -> (Keyed, Token) {
        let mut setup = Setup::default();
        setup.server.header_timeout = Duration::from_millis(500);
        Keyed::with(per_second, setup)
    }

    pub(crate) fn with(per_second: Option<u32>, setup: Setup) -> (Keyed, Token) {
        let folder = tempfile::tempdir().unwrap();
        let root = add(&folder, "root", Scope::Admin, None);
        let path = folder.path().join("keys.json");
        let ring = Arc::new(ApiKeys::open(&path, per_second.and_then(NonZeroU32::new)).unwrap());
        let server = Server::with(Setup {
            keys: Some(Arc::clone(&ring)),
            ..setup
        });
        (
            Keyed {
                server,
                ring,
                folder,
            },
            root,
        )
    }

    pub(crate) fn add(&self, name: &str, scope: Scope, prefix: Option<&str>) -> Token {
        let token = add(&self.folder, name, scope, prefix);
        self.ring.reload().unwrap();
        token
    }

    pub(crate) fn remove(&self, name: &str) {
        let path = self.folder.path().join("keys.json");
        file::remove(&path, &name.parse().unwrap()).unwrap();
        self.ring.reload().unwrap();
    }

    /// Has every key of the one scope have the other.
    pub(crate) fn change(&self, from: Scope, to: Scope) {
        let path = self.folder.path().join("keys.json");
        let text = std::fs::read_to_string(&path).unwrap();
        let quoted = |scope: Scope| format!("\"{}\"", scope.name());
        let changed = text.replace(&quoted(from), &quoted(to));
        assert_ne!(changed, text);
        std::fs::write(&path, changed).unwrap();
        self.ring.reload().unwrap();
    }

    /// A client that has shown its key.
    pub(crate) fn connect(&self, token: &Token) -> Client {
        let mut client = self.server.connect();
        client.expect(&format!("AUTH {}", token.as_str()), "+OK\\r\\n");
        client
    }
}

fn add(folder: &TempDir, name: &str, scope: Scope, prefix: Option<&str>) -> Token {
    let mut key = NewKey::new(name.parse().unwrap(), scope);
    key.export = scope > Scope::Read;
    key.prefix = prefix.map(|prefix| prefix.parse().unwrap());
    file::add(&folder.path().join("keys.json"), key, SystemTime::now()).unwrap()
}
