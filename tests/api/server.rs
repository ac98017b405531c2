//! A server on a port of its own, and what to ask it with.

use crate::memory::MemoryStore;
use crate::polls::PollWatch;
use crate::{listening, words};
use cuckood::access::keys::ApiKeys;
use cuckood::backup::{BackupOptions, Backups};
use cuckood::client::remote::choose_cryptography;
use cuckood::engine::check::check_while;
use cuckood::engine::{Engine, EngineOptions};
use cuckood::http::{Endpoint, serve};
use cuckood::metrics::Metrics;
use cuckood::server::{Access, App, HostPolicy, Limits, ListenerRole, ServerOptions, Tls};
use cuckood::store::{KeyValueStore, PageStore};
use reqwest::{Client, Method, RequestBuilder, Response};
use serde_json::Value;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// How a server is started; the default is small and quick.
pub(crate) struct Setup {
    pub(crate) store: Arc<dyn KeyValueStore>,
    pub(crate) engine: EngineOptions,
    pub(crate) limits: Limits,
    pub(crate) server: ServerOptions,
    pub(crate) hosts: HostPolicy,
    pub(crate) keys: Option<Arc<ApiKeys>>,
    pub(crate) tls: Option<Arc<Tls>>,
    pub(crate) operations_tls: Option<Arc<Tls>>,
    /// Whether there is a second listener, for operations.
    pub(crate) has_operations: bool,
    pub(crate) backups: Option<BackupOptions>,
}

impl Default for Setup {
    fn default() -> Self {
        Setup {
            store: Arc::new(MemoryStore::new()),
            engine: EngineOptions {
                max_log_bytes: 4 << 20,
                max_open_filters: 100,
                max_queued_commands: 100,
                after_commit: Some(crate::checked::after_commit),
                ..EngineOptions::with_cache(16 << 20)
            },
            limits: Limits::default(),
            server: ServerOptions {
                drain_timeout: Duration::from_secs(5),
                ..ServerOptions::default()
            },
            hosts: HostPolicy::LocalOnly,
            keys: None,
            tls: None,
            operations_tls: None,
            has_operations: false,
            backups: None,
        }
    }
}

impl Setup {
    /// The usual one, over a store of which a clone is the same.
    pub(crate) fn over(store: &(impl KeyValueStore + Clone)) -> Setup {
        Setup {
            store: Arc::new(store.clone()),
            ..Setup::default()
        }
    }
}

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) operations: Option<SocketAddr>,
    pub(crate) app: Arc<App>,
    pub(crate) metrics: Arc<Metrics>,
    client: Client,
    engine: Option<Engine>,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<usize>,
    _polls: PollWatch,
}

impl Server {
    pub(crate) async fn start() -> Server {
        Server::with(Setup::default()).await
    }

    pub(crate) async fn with(setup: Setup) -> Server {
        let (kept, options) = (Arc::clone(&setup.store), setup.engine.clone());
        let store = Arc::new(PageStore::open(kept).unwrap());
        let (backups, backed_up) = (setup.backups.clone(), Arc::clone(&store));
        let mut server = Server::not_open(setup).await;
        let metrics = Arc::clone(&server.metrics);
        let engine = tokio::task::spawn_blocking(move || Engine::open(store, &options, metrics))
            .await
            .unwrap()
            .unwrap();
        if let Some(options) = backups {
            let metrics = Arc::clone(&server.metrics);
            let backups = Backups::open(backed_up, &options, metrics, |store, read| {
                check_while(store, read).map(|_| ())
            });
            let backups = backups.unwrap();
            server.app.offer_backups(backups);
        }
        server.app.open(engine.clone());
        server.engine = Some(engine);
        server
    }

    /// A server that listens while its engine is not open yet.
    pub(crate) async fn not_open(setup: Setup) -> Server {
        listening::listen();
        let metrics = Arc::new(Metrics::new().unwrap());
        let access = Access {
            hosts: setup.hosts,
            keys: setup.keys,
        };
        let app = App::new(Arc::clone(&metrics), setup.limits, access);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut endpoints = vec![Endpoint {
            listener,
            role: match setup.has_operations {
                true => ListenerRole::Filters,
                false => ListenerRole::All,
            },
            tls: setup.tls,
        }];
        let mut operations = None;
        if setup.has_operations {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            operations = Some(listener.local_addr().unwrap());
            endpoints.push(Endpoint {
                listener,
                role: ListenerRole::Operations,
                tls: setup.operations_tls,
            });
        }
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(serve(
            endpoints,
            Arc::clone(&app),
            setup.server,
            async move {
                let _ = stopped.await;
            },
        ));
        choose_cryptography();
        Server {
            address,
            operations,
            app,
            _polls: PollWatch(Arc::clone(&metrics)),
            metrics,
            client: Client::builder().no_gzip().build().unwrap(),
            engine: None,
            stop: Some(stop),
            task,
        }
    }

    pub(crate) fn ask_to_stop(&mut self) {
        self.stop.take().unwrap().send(()).unwrap();
    }

    pub(crate) fn engine(&self) -> &Engine {
        self.engine.as_ref().unwrap()
    }

    /// Waits until the server has drained; returns how many were cut off.
    pub(crate) async fn stopped(self) -> usize {
        let cut_off = self.task.await.unwrap();
        if let Some(engine) = self.engine {
            tokio::task::spawn_blocking(move || engine.shutdown())
                .await
                .unwrap()
                .unwrap();
        }
        cut_off
    }

    pub(crate) async fn stop(mut self) -> usize {
        self.ask_to_stop();
        self.stopped().await
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, self.url(path))
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        Answer::of(self.request(Method::GET, path)).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        Answer::of(self.request(Method::DELETE, path)).await
    }

    pub(crate) async fn put(&self, path: &str, body: Value) -> Answer {
        Answer::of(self.request(Method::PUT, path).json(&body)).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        Answer::of(self.request(Method::POST, path).json(&body)).await
    }

    /// Sends a body as it is.
    pub(crate) async fn send(
        &self,
        path: &str,
        media_type: &str,
        body: impl Into<reqwest::Body>,
    ) -> Answer {
        let request = self
            .request(Method::POST, path)
            .header("content-type", media_type);
        Answer::of(request.body(body)).await
    }
}

/// A whole response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) bytes: Vec<u8>,
}

impl Answer {
    pub(crate) async fn of(request: RequestBuilder) -> Answer {
        let (client, request) = request.build_split();
        let request = request.unwrap();
        let body = request.body().and_then(reqwest::Body::as_bytes);
        words::remember_request(request.url(), request.headers(), body);
        let answer = Answer::from(client.execute(request).await.unwrap()).await;
        words::assert_none_was_logged();
        answer
    }

    pub(crate) async fn from(response: Response) -> Answer {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let bytes = response.bytes().await.unwrap().to_vec();
        Answer {
            status,
            headers,
            bytes,
        }
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().unwrap())
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.bytes).unwrap()
    }

    /// The JSON of a success.
    #[track_caller]
    pub(crate) fn ok(&self) -> Value {
        assert!(self.status < 300, "{} {}", self.status, self.text());
        assert_eq!(self.header("content-type"), "application/json");
        serde_json::from_slice(&self.bytes).unwrap()
    }

    /// The problem details of a failure, with everything that each must have.
    #[track_caller]
    pub(crate) fn problem(&self, status: u16, code: &str) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        assert_eq!(self.header("content-type"), "application/problem+json");
        let problem: Value = serde_json::from_slice(&self.bytes).unwrap();
        assert_eq!(problem["code"], code, "{problem}");
        assert_eq!(problem["status"], status);
        assert_eq!(problem["type"], format!("urn:cuckood:problem:{code}"));
        assert_eq!(problem["request_id"], self.header("x-request-id"));
        assert!(!self.header("x-request-id").is_empty());
        for field in ["title", "detail"] {
            assert!(problem[field].as_str().unwrap().len() > 5, "{problem}");
        }
        if status == 503 {
            assert!(self.header("retry-after").parse::<u32>().is_ok());
        }
        problem
    }

    /// The pointers of the refused fields of a 422.
    #[track_caller]
    pub(crate) fn refused(&self) -> Vec<String> {
        let problem = self.problem(422, "invalid_fields");
        let errors = problem["errors"].as_array().unwrap();
        errors
            .iter()
            .map(|error| {
                assert!(!error["given"].as_str().unwrap().is_empty(), "{error}");
                assert!(!error["allowed"].as_str().unwrap().is_empty(), "{error}");
                let place = error.get("pointer").or(error.get("parameter"));
                place.unwrap().as_str().unwrap().to_owned()
            })
            .collect()
    }
}

/// Expects that what a problem says of itself has these words in it.
#[track_caller]
pub(crate) fn expect_detail(problem: &Value, words: &str) {
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains(words), "{detail}");
}
