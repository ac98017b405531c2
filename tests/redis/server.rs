//! A server on ports of its own.

use crate::memory::MemoryStore;
use crate::polls::PollWatch;
use crate::wire::Client;
use crate::{listening, words};
use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request};
use cuckood::access::keys::ApiKeys;
use cuckood::chain::params::Defaults;
use cuckood::engine::{Engine, EngineOptions};
use cuckood::http::router;
use cuckood::metrics::Metrics;
use cuckood::redis::{RedisEndpoint, RedisOptions, serve};
use cuckood::server::{
    Access, App, HostPolicy, Limits, ListenerRole, ServerOptions, Tls, Transport,
};
use cuckood::store::{KeyValueStore, PageStore};
use http_body_util::BodyExt as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tower::ServiceExt as _;

impl Client {
    /// Expects a reply that begins so.
    #[track_caller]
    pub(crate) fn expect_start(&mut self, line: &str, start: &str) {
        let told = self.tell(line);
        assert!(told.starts_with(start), "{line}: {told}");
    }

    /// Expects a reply that has this in it.
    #[track_caller]
    pub(crate) fn expect_within(&mut self, line: &str, part: &str) {
        let told = self.tell(line);
        assert!(told.contains(part), "{line}: {told}");
    }
}

/// How a server is started.
pub(crate) struct Setup {
    pub(crate) defaults: Defaults,
    pub(crate) limits: Limits,
    pub(crate) server: ServerOptions,
    pub(crate) redis: RedisOptions,
    pub(crate) keys: Option<Arc<ApiKeys>>,
    pub(crate) tls: Option<Arc<Tls>>,
    pub(crate) store: Arc<dyn KeyValueStore>,
    pub(crate) cache_bytes: u64,
    /// Whether the engine is opened.
    pub(crate) is_open: bool,
}

impl Default for Setup {
    fn default() -> Self {
        Setup {
            defaults: Defaults::default(),
            limits: Limits::default(),
            server: ServerOptions {
                drain_timeout: Duration::from_secs(5),
                ..ServerOptions::default()
            },
            redis: RedisOptions {
                allow_flush: true,
                ..RedisOptions::default()
            },
            keys: None,
            tls: None,
            store: Arc::new(MemoryStore::new()),
            cache_bytes: 64 << 20,
            is_open: true,
        }
    }
}

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) metrics: Arc<Metrics>,
    engine: Option<Engine>,
    /// The same server over HTTP.
    router: Router,
    stop: Option<oneshot::Sender<()>>,
    task: Option<JoinHandle<usize>>,
    runtime: Runtime,
    _polls: PollWatch,
}

impl Server {
    pub(crate) fn start() -> Server {
        Server::with(Setup::default())
    }

    pub(crate) fn with(setup: Setup) -> Server {
        listening::listen();
        let runtime = Runtime::new().unwrap();
        let metrics = Arc::new(Metrics::new().unwrap());
        let access = Access {
            hosts: HostPolicy::LocalOnly,
            keys: setup.keys,
        };
        let app = App::new(Arc::clone(&metrics), setup.limits, access);
        let redis = RedisOptions {
            defaults: setup.defaults.clone(),
            ..setup.redis
        };
        let engine = setup.is_open.then(|| {
            let store = Arc::new(PageStore::open(setup.store).unwrap());
            let options = EngineOptions {
                defaults: setup.defaults,
                max_log_bytes: 4 << 20,
                max_open_filters: 1000,
                max_queued_commands: 1000,
                max_queued_items: 2_000_000,
                after_commit: Some(crate::checked::after_commit),
                ..EngineOptions::with_cache(setup.cache_bytes)
            };
            Engine::open(store, &options, Arc::clone(&metrics)).unwrap()
        });
        if let Some(engine) = &engine {
            app.open(engine.clone());
        }
        let router = router(Arc::clone(&app), ListenerRole::All, Transport::Plain);
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let endpoint = RedisEndpoint {
            listener,
            tls: setup.tls,
        };
        let serving = serve(endpoint, app, redis, setup.server, async move {
            let _ = stopped.await;
        });
        let task = Some(runtime.spawn(serving));
        Server {
            address,
            _polls: PollWatch(Arc::clone(&metrics)),
            metrics,
            engine,
            router,
            stop: Some(stop),
            task,
            runtime,
        }
    }

    pub(crate) fn connect(&self) -> Client {
        Client::connect(self.address)
    }

    /// The same, speaking RESP3.
    pub(crate) fn connect_resp3(&self) -> Client {
        let mut client = self.connect();
        assert!(client.ask(&["HELLO", "3"]).starts_with(b"%7\r\n"));
        client
    }

    pub(crate) fn ask_to_stop(&mut self) {
        let _ = self.stop.take().unwrap().send(());
    }

    /// Waits until it has drained; returns how many connections were cut off.
    pub(crate) fn stopped(&mut self) -> usize {
        let task = self.task.take().unwrap();
        self.runtime.block_on(task).unwrap()
    }

    /// What the engine does, asked beside the protocol.
    pub(crate) fn ask_engine<A: Future>(&self, ask: impl FnOnce(Engine) -> A) -> A::Output {
        let engine = self.engine.clone().unwrap();
        self.runtime.block_on(ask(engine))
    }

    /// What the same server answers over HTTP.
    pub(crate) fn http(&self, request: Request<Body>) -> (HeaderMap, serde_json::Value) {
        let answering = async {
            let answer = self.router.clone().oneshot(request).await.unwrap();
            let (parts, body) = answer.into_parts();
            (parts.headers, body.collect().await.unwrap().to_bytes())
        };
        let (headers, body) = self.runtime.block_on(answering);
        (headers, serde_json::from_slice(&body).unwrap())
    }

    /// The value of a metric.
    pub(crate) fn metric(&self, line: &str) -> f64 {
        let text = String::from_utf8(self.metrics.encode().unwrap()).unwrap();
        let found = text.lines().find_map(|it| it.strip_prefix(line));
        found.map_or(0.0, |value| value.trim().parse().unwrap())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.stop.is_some() {
            self.ask_to_stop();
            self.stopped();
        }
        if let Some(engine) = self.engine.take() {
            engine.shutdown().unwrap();
        }
        if !std::thread::panicking() {
            words::assert_none_was_logged();
        }
    }
}
