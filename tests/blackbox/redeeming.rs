//! A thousand clients who want the same coupon.

use crate::server::{Server, retried};
use serde_json::json;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

const CLIENTS: usize = 1_000;

/// All requests are sent before any answer is read, each over a connection of
/// its own that is open already: so they are on their way at the same time.
#[test]
fn of_a_thousand_clients_who_delete_the_same_coupon_one_is_told_that_it_was_there() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(
        data.path(),
        &[
            // All are worked on at once; those of rounds before may be on their way out.
            "--max-in-flight=4000",
            "--max-connections=4000",
            "--max-connections-per-address=4000",
            // All connect before the first asks, however busy the machine is.
            "--header-timeout-seconds=120",
        ],
    );
    server.create_filter("coupons", &json!({"capacity": 100_000}));
    let threads = 20;
    for round in 0..3 {
        let coupon = format!("coupon-{round}");
        let others: Vec<String> = (0..100)
            .map(|other| format!("other-{round}-{other}"))
            .collect();
        server
            .post_lines("/filters/coupons/items", &others)
            .unwrap();
        server
            .post_lines("/filters/coupons/items", std::slice::from_ref(&coupon))
            .unwrap();
        let before = server.items("coupons");
        let count = server.get_json(&format!("/filters/coupons/count?item={coupon}"));
        assert_eq!(count["count"], 1, "no other item looks like it");

        let (told, all_sent) = (AtomicUsize::new(0), Barrier::new(threads));
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    let open = || TcpStream::connect(("127.0.0.1", server.port())).unwrap();
                    let body = format!("{{\"items\": [\"{coupon}\"]}}");
                    let request = format!(
                        "POST /filters/coupons/items/delete HTTP/1.1\r\nhost: localhost\r\n\
                         connection: close\r\ncontent-type: application/json\r\n\
                         content-length: {}\r\n\r\n{body}",
                        body.len()
                    );
                    let send = |client: &mut TcpStream| client.write_all(request.as_bytes());
                    let mut clients: Vec<_> = (0..CLIENTS / threads).map(|_| open()).collect();
                    all_sent.wait();
                    clients.iter_mut().for_each(|client| send(client).unwrap());
                    for client in &mut clients {
                        retried(|| {
                            let mut answer = String::new();
                            client.read_to_string(&mut answer).unwrap();
                            match answer.split("\r\n\r\n").nth(1).map(str::trim) {
                                Some(r#"{"results":[true]}"#) => {
                                    told.fetch_add(1, Ordering::SeqCst)
                                }
                                Some(r#"{"results":[false]}"#) => 0,
                                // It was not done.
                                _ if answer.starts_with("HTTP/1.1 503 ") => {
                                    *client = open();
                                    send(client).unwrap();
                                    return Err(answer);
                                }
                                _ => panic!("{answer}"),
                            };
                            Ok(())
                        });
                    }
                });
            }
        });
        assert_eq!(told.into_inner(), 1);
        assert_eq!(server.items("coupons"), before - 1);
        let found = server
            .post_lines("/filters/coupons/exists", &others)
            .unwrap();
        assert!(found.iter().all(|found| found == "true"));
    }
}
