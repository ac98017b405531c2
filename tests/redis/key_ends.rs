//! What is under way when it is over with an API key, or it allows something
//! else.

use crate::keyed::Keyed;
use cuckood::access::Scope;

#[test]
fn it_is_over_with_a_key_that_is_removed() {
    let (keyed, _) = Keyed::start(None);
    let key = keyed.add("web", Scope::Write, None);
    let mut client = keyed.connect(&key);
    client.expect("CF.ADD k a", ":1\\r\\n");
    keyed.remove("web");
    client.expect("CF.ADD k a", "-NOAUTH Authentication required.\\r\\n");
}

#[test]
fn a_transaction_does_nothing_that_its_key_no_longer_allows() {
    let (keyed, root) = Keyed::start(None);
    let key = keyed.add("web", Scope::Write, None);
    let mut client = keyed.connect(&key);
    client.expect("MULTI", "+OK\\r\\n");
    client.expect("CF.ADD k a", "+QUEUED\\r\\n");
    keyed.change(Scope::Write, Scope::Read);
    client.expect(
        "EXEC",
        "-EXECABORT Transaction discarded because of previous errors.\\r\\n",
    );
    client.expect("EXISTS k", ":0\\r\\n");
    // Also if it is allowed more by then.
    client.expect("MULTI", "+OK\\r\\n");
    client.expect("CF.EXISTS k a", "+QUEUED\\r\\n");
    keyed.change(Scope::Read, Scope::Write);
    assert!(client.tell("EXEC").starts_with("-EXECABORT"));
    // A change of another key is none of its own.
    client.expect("MULTI", "+OK\\r\\n");
    client.expect("CF.ADD k a", "+QUEUED\\r\\n");
    keyed.add("other", Scope::Read, None);
    client.expect("EXEC", "*1\\r\\n:1\\r\\n");
    keyed.connect(&root).expect("CF.COUNT k a", ":1\\r\\n");
}
