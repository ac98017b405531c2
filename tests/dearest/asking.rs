//! Many connections of one API key that ask the same, as fast as they are answered.

use crate::form::{Request, Round};
use cuckood::client::remote::choose_cryptography;
use futures_util::future::join_all;
use memchr::memmem;
use std::cell::{Cell, RefCell};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Behind each pipeline: its reply is the last one.
const END: &[u8] = b"*2\r\n$4\r\nECHO\r\n$20\r\n<end of a pipeline!>\r\n";
const END_REPLY: &[u8] = b"$20\r\n<end of a pipeline!>\r\n";

/// Who asks, and where.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) port: u16,
    pub(crate) redis: u16,
    pub(crate) key: String,
    /// What its questions take into account: `local` or `strong`.
    pub(crate) consistency: &'static str,
}

/// What became of what was asked.
#[derive(Default)]
pub(crate) struct Asked {
    /// Rounds that were answered, and refused for the time being.
    pub(crate) answered: Cell<u64>,
    pub(crate) refused: Cell<u64>,
    /// Connections that ended before an answer.
    pub(crate) broken: Cell<u64>,
    /// Answers that are none.
    pub(crate) wrong: RefCell<Vec<String>>,
}

fn more(count: &Cell<u64>) {
    count.set(count.get() + 1);
}

/// Asks over so many connections for so long; those that wait then are closed.
pub(crate) fn besiege(
    caller: &Caller,
    connections: usize,
    rounds: &[Round],
    lasts: Duration,
) -> Asked {
    ask(caller, connections, rounds, lasts, lasts)
}

/// Asks the first round once.
pub(crate) fn once(caller: &Caller, rounds: &[Round], longest: Duration) -> Asked {
    ask(caller, 1, rounds, Duration::ZERO, longest)
}

/// Asks as long as another round may begin, and waits no longer than that.
fn ask(
    caller: &Caller,
    connections: usize,
    rounds: &[Round],
    begins: Duration,
    longest: Duration,
) -> Asked {
    choose_cryptography();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    // It opens a connection for each request under way. To make one for each takes longer
    // than the short test lasts.
    let http = reqwest::Client::builder().no_proxy().no_gzip();
    let http = http.build().unwrap();
    let (asked, ends) = (Asked::default(), Instant::now() + begins);
    runtime.block_on(async {
        let asking =
            (0..connections).map(|first| go_on(&http, caller, rounds, first, ends, &asked));
        let _ = timeout(longest, join_all(asking)).await;
    });
    asked
}

async fn go_on(
    http: &reqwest::Client,
    caller: &Caller,
    rounds: &[Round],
    first: usize,
    ends: Instant,
    asked: &Asked,
) {
    let mut stream = None;
    for at in first.. {
        match &rounds[at % rounds.len()] {
            Round::Http(requests) => {
                for request in requests {
                    request_once(http, caller, request, asked).await;
                }
            }
            Round::Redis(commands) => {
                if stream.is_none() {
                    stream = connect(caller).await;
                }
                let Some(open) = &mut stream else {
                    more(&asked.broken);
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    continue;
                };
                if !pipeline(open, commands, asked).await {
                    stream = None;
                }
            }
        }
        if Instant::now() >= ends {
            return;
        }
    }
}

async fn request_once(http: &reqwest::Client, caller: &Caller, request: &Request, asked: &Asked) {
    let url = format!("http://127.0.0.1:{}{}", caller.port, request.path);
    let method = request.method.parse().unwrap();
    let mut asking = http.request(method, url).bearer_auth(&caller.key);
    for (name, value) in &request.headers {
        asking = asking.header(*name, value);
    }
    let has = |name: &str| request.headers.iter().any(|it| it.0 == name);
    if !has("prefer") {
        asking = asking.header("prefer", "wait=3600");
    }
    if !has("cuckood-min-position") {
        asking = asking.header("cuckood-consistency", caller.consistency);
    }
    let Ok(mut answer) = asking.body(request.body.clone()).send().await else {
        return more(&asked.broken);
    };
    let status = answer.status().as_u16();
    let mut said = Vec::new();
    loop {
        match answer.chunk().await {
            Ok(Some(piece)) if status >= 400 && said.len() < 2000 => said.extend(piece),
            Ok(Some(_)) => {}
            Ok(None) => break,
            Err(_) => return more(&asked.broken),
        }
    }
    let said = String::from_utf8_lossy(&said);
    // Another connection is at the same, under the same name.
    let is_under_way = said.contains("idempotency_in_flight") || said.contains("import_running");
    match status {
        200..400 => more(&asked.answered),
        429 | 503 => more(&asked.refused),
        409 if is_under_way => more(&asked.refused),
        status if status == request.or => more(&asked.answered),
        status => {
            let wrong = format!("{status} {said}");
            asked.wrong.borrow_mut().push(wrong);
        }
    }
}

async fn connect(caller: &Caller) -> Option<TcpStream> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, caller.redis));
    let mut stream = TcpStream::connect(address).await.ok()?;
    for words in [
        &["AUTH", &caller.key][..],
        &["CLIENT", "CONSISTENCY", caller.consistency],
    ] {
        let words = crate::form::command(words);
        stream.write_all(&words).await.ok()?;
        let mut reply = [0; 5];
        stream.read_exact(&mut reply).await.ok()?;
        if &reply != b"+OK\r\n" {
            return None;
        }
    }
    Some(stream)
}

/// Sends commands, and reads to the end of their replies; whether the connection goes
/// on.
async fn pipeline(stream: &mut TcpStream, commands: &[u8], asked: &Asked) -> bool {
    let (mut reader, mut writer) = stream.split();
    let writing = async {
        writer.write_all(commands).await?;
        writer.write_all(END).await
    };
    let reading = async {
        let (mut first, mut tail, mut piece) = (None, Vec::new(), vec![0; 64 << 10]);
        loop {
            let read = reader.read(&mut piece).await.unwrap_or(0);
            let came = &piece[..read];
            // All that comes before was taken, but nothing was done.
            if memmem::find(came, b"\r\n-EXECABORT ").is_some() {
                first = Some(b'-');
            }
            first = first.or(came.first().copied());
            tail.extend_from_slice(&came[came.len().saturating_sub(END_REPLY.len())..]);
            let spare = tail.len().saturating_sub(END_REPLY.len());
            tail.drain(..spare);
            if read == 0 || tail == END_REPLY {
                return (first, read > 0);
            }
        }
    };
    let (_, (first, goes_on)) = tokio::join!(writing, reading);
    match first {
        None => more(&asked.broken),
        Some(b'-') => more(&asked.refused),
        Some(_) => more(&asked.answered),
    }
    goes_on
}
