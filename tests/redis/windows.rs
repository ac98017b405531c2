//! Filters whose items expire, for clients of the Redis protocol.

use crate::server::Server;
use cuckood::chain::params::FilterRequest;
use cuckood::engine::FilterName;

/// A filter of a day, which is created over HTTP.
fn with_window() -> Server {
    let server = Server::start();
    let created = server.ask_engine(|engine| async move {
        let request = FilterRequest {
            capacity: Some(1_000),
            window_seconds: Some(86_400),
            ..FilterRequest::default()
        };
        let name = FilterName::parse("mails").unwrap();
        engine.create_filter(&name, &request.into(), None).await
    });
    created.unwrap();
    server
}

#[test]
fn items_of_a_window_are_added_and_asked_for_and_not_deleted() {
    let server = with_window();
    let mut client = server.connect();
    client.expect("CF.ADD mails ada", ":1\\r\\n");
    client.expect("CF.ADD mails ada", ":1\\r\\n");
    client.expect("CF.ADDNX mails ada", ":0\\r\\n");
    client.expect("CF.INSERT mails ITEMS ada bob", "*2\\r\\n:1\\r\\n:1\\r\\n");
    client.expect(
        "CF.INSERTNX mails ITEMS ada eve",
        "*2\\r\\n:0\\r\\n:1\\r\\n",
    );
    client.expect("CF.MEXISTS mails ada zoe", "*2\\r\\n:1\\r\\n:0\\r\\n");
    client.expect("CF.COUNT mails ada", ":1\\r\\n");
    let refusal = "-ERR the items of the filter expire by themselves (it was created with window_seconds) and can\\'t be deleted: an entry may be that of several items\\r\\n";
    client.expect("CF.DEL mails ada", refusal);
    client.expect("CF.EXISTS mails ada", ":1\\r\\n");
}

#[test]
fn a_transaction_sees_what_it_has_added_to_a_window() {
    let server = with_window();
    let mut client = server.connect();
    client.expect("MULTI", "+OK\\r\\n");
    for line in [
        "CF.EXISTS mails a",
        "CF.ADD mails a",
        "CF.EXISTS mails a",
        "CF.ADD mails a",
        "CF.COUNT mails a",
    ] {
        client.expect(line, "+QUEUED\\r\\n");
    }
    client.expect("EXEC", "*5\\r\\n:0\\r\\n:1\\r\\n:1\\r\\n:1\\r\\n:1\\r\\n");
}
