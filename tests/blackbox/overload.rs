//! Many times more clients than are worked on at once: those who are turned
//! away are told quickly, the others are served, and memory stays as it was.

use crate::server::{Sent as _, Server};
use serde_json::json;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Requests that the server works on at once.
const PLACES: usize = 1;

/// Items of each request, and clients that send them as fast as they can: so
/// many that most of them would wait for longer than the server has them wait,
/// however quick the machine.
const ITEMS: usize = 1200;
const ITEMS_ASKED: usize = 20_000;
const CLIENTS: usize = 160;

/// How long each phase lasts.
const PHASE: Duration = Duration::from_secs(4);

/// What clients saw.
#[derive(Default)]
struct Seen {
    served: Vec<Duration>,
    turned_away: Vec<Duration>,
}

/// Has so many clients add and ask as fast as they can.
fn load(server: &Server, clients: usize) -> Seen {
    let (seen, stop) = (Mutex::new(Seen::default()), AtomicBool::new(false));
    thread::scope(|scope| {
        for client in 0..clients {
            let (seen, stop) = (&seen, &stop);
            scope.spawn(move || {
                let http = reqwest::blocking::Client::builder()
                    .no_proxy()
                    .build()
                    .unwrap();
                // Made once: the clients are to take as little of the machine
                // as they can.
                let body = |items: usize| {
                    let items = (0..items).map(|item| format!("{client}-{item}\n"));
                    items.collect::<String>().into_bytes()
                };
                let change = (
                    server.url("/filters/f/items?only_if_absent=true"),
                    body(ITEMS),
                );
                let question = (server.url("/filters/f/exists"), body(ITEMS_ASKED));
                let mut round = 0u64;
                while !stop.load(Ordering::Relaxed) {
                    round += 1;
                    let (url, body) = match round % 2 {
                        0 => &question,
                        _ => &change,
                    };
                    let request = http.post(url).header("content-type", "text/plain");
                    let request = request.body(body.clone());
                    let started = Instant::now();
                    let answer = request.sent().unwrap();
                    let took = started.elapsed();
                    match answer.status().as_u16() {
                        200 => seen.lock().unwrap().served.push(took),
                        503 => {
                            let again = answer.headers().get("retry-after").unwrap();
                            assert!(again.to_str().unwrap().parse::<u32>().is_ok());
                            assert!(answer.text().unwrap().contains("overloaded"));
                            seen.lock().unwrap().turned_away.push(took);
                        }
                        other => panic!("{other}: {:?}", answer.text()),
                    }
                }
            });
        }
        thread::sleep(PHASE);
        stop.store(true, Ordering::Relaxed);
    });
    seen.into_inner().unwrap()
}

/// The time that so many of a hundred took at most.
fn percentile(times: &mut [Duration], hundredths: usize) -> Duration {
    times.sort_unstable();
    times[(times.len() - 1) * hundredths / 100]
}

#[test]
fn what_is_too_much_is_turned_away_quickly_and_takes_nothing_from_the_rest() {
    let data = tempfile::tempdir().unwrap();
    let places = format!("--max-in-flight={PLACES}");
    let server = Server::start(data.path(), &[&places, "--cache-bytes=64MiB"]);
    server.create_filter("f", &json!({"capacity": 1_000_000}));
    // What there is to be had once is had by then.
    let mut calm = load(&server, PLACES);
    let before = server.metric("process_resident_memory_bytes");
    let mut flood = load(&server, CLIENTS);
    let after = server.metric("process_resident_memory_bytes");
    let calm_p99 = percentile(&mut calm.served, 99);
    let told_p99 = percentile(&mut flood.turned_away, 99);
    let served_p99 = percentile(&mut flood.served, 99);
    println!(
        "{PLACES} clients: {} served, p99 {calm_p99:?}; {} clients: {} served, p99 {served_p99:?}, {} turned away, p99 {told_p99:?}; memory {:.0} MiB, then {:.0} MiB",
        calm.served.len(),
        CLIENTS,
        flood.served.len(),
        flood.turned_away.len(),
        before / 1048576.0,
        after / 1048576.0
    );
    assert!(calm.turned_away.is_empty());
    assert!(flood.turned_away.len() > 100);
    // Those who come again at once take of the others no more than their share of
    // this machine, on which they are, too.
    assert!(6 * flood.served.len() > calm.served.len());
    // The machine of a test may be busy with others.
    assert!(told_p99 < Duration::from_secs(2), "{told_p99:?}");
    assert!(
        after - before < 64.0 * 1048576.0,
        "{before} grew to {after}"
    );
    // And when it is over, it is over.
    assert_eq!(server.get_json("/filters/f")["key"], "f");
    server.stop();
}
