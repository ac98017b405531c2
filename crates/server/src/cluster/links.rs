//! Connections between pods. Before a pod sends anything over one, a caller's API key
//! least of all, the pod at the other end has shown that it knows the key of the cluster,
//! and so has the one that asks; the key itself is never sent.
//!
//! ```text
//! hello   FROM NONCE TAG    who asks, and that it knows the key
//! answer  NONCE TAG         who is asked knows it, too, here and now
//! proof   TAG               and who asks knows it here and now
//! ```
//!
//! Each tag is about the address of both, as the one that asks knows them, and about all
//! numbers chosen so far: none is of use on another connection, to another pod, or from
//! the other end.

use super::headers::LINK;
use crate::access::mac::{MacKey, MacKeys};
use crate::listen::link::Greeting;
use axum::http::Uri;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tower::Service;
use tower::layer::layer_fn;

/// Where pods say so.
pub const PATH: &str = "/internal/link";

/// How long another pod may take to accept a connection, and to show that it is of the
/// cluster.
const CONNECT: Duration = Duration::from_secs(2);

/// More than the head of an answer that only says so.
const MAX_ANSWER_BYTES: usize = 4 << 10;

/// More pods than a cluster has.
const MAX_CLIENTS: usize = 1024;

type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Connections to other pods.
pub struct Links {
    asking: Asking,
    authorities: Option<Vec<reqwest::Certificate>>,
    /// By address.
    clients: Mutex<HashMap<String, reqwest::Client>>,
}

/// How this pod asks another one.
#[derive(Clone)]
struct Asking {
    own: Arc<str>,
    to: Arc<str>,
    keys: MacKeys,
}

impl Links {
    /// Of a pod that others reach at `own`, with the keys for what pods ask of each
    /// other; other pods' certificates are signed by one of `authorities`.
    pub fn new(own: &str, keys: MacKeys, authorities: Option<Vec<reqwest::Certificate>>) -> Links {
        Links {
            asking: Asking {
                own: own.into(),
                to: "".into(),
                keys,
            },
            authorities,
            clients: Mutex::default(),
        }
    }

    /// Where others reach this pod.
    pub(crate) fn own(&self) -> &str {
        &self.asking.own
    }

    /// What asks the pod at an address, and nobody who can't show the cluster's key.
    ///
    /// # Errors
    /// TLS can't be spoken.
    pub fn to(&self, address: &str) -> reqwest::Result<reqwest::Client> {
        let mut clients = self.clients.lock();
        if let Some(known) = clients.get(address) {
            return Ok(known.clone());
        }
        let asking = Asking {
            to: address.into(),
            ..self.asking.clone()
        };
        let mut builder = reqwest::Client::builder()
            .connect_timeout(CONNECT)
            .redirect(reqwest::redirect::Policy::none())
            // What is forwarded goes as it is, and to nobody in between.
            .no_proxy()
            .no_gzip()
            .http1_only()
            .connector_layer(layer_fn(move |connect| Proving {
                connect,
                asking: asking.clone(),
            }));
        if let Some(authorities) = &self.authorities {
            builder = builder.tls_certs_only(authorities.clone());
        }
        let client = builder.build()?;
        if clients.len() >= MAX_CLIENTS {
            clients.clear();
        }
        clients.insert(address.to_owned(), client.clone());
        Ok(client)
    }
}

/// What a tag is about.
fn parts<'a>(what: &'a str, from: &'a str, to: &'a str, nonces: [&'a str; 2]) -> [&'a [u8]; 5] {
    let [first, second] = nonces;
    [what, from, to, first, second].map(str::as_bytes)
}

fn nonce() -> Result<String, getrandom::Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)?;
    Ok(hex::encode(bytes))
}

fn tag(key: &MacKey, parts: &[&[u8]]) -> String {
    hex::encode(key.tag(parts))
}

fn is_tag(key: &MacKey, parts: &[&[u8]], tag: &str) -> bool {
    hex::decode(tag).is_ok_and(|it| key.is(parts, &it))
}

impl Asking {
    /// Sees that the pod at the other end is of the cluster, and shows it that this one
    /// is.
    async fn prove(&self, stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> Result<(), Cause> {
        let key = self.keys.first().ok_or("there is no key")?;
        let about = |what, nonces| parts(what, &self.own, &self.to, nonces);
        let own = nonce()?;
        let hello = tag(key, &about("hello", [&own, ""]));
        let words = format!("hello {} {own} {hello}", self.own);
        let answer = self.say(stream, &words).await?;
        let [word, theirs, shown] = words_of(&answer).ok_or("it says nothing of the cluster")?;
        if word != "answer" || !is_tag(key, &about("answer", [&own, theirs]), shown) {
            return Err("it does not know the key of the cluster".into());
        }
        let proof = tag(key, &about("proof", [&own, theirs]));
        self.say(stream, &format!("proof {proof}")).await?;
        Ok(())
    }

    /// Sends a request that is only a head, and reads the answer, which is, too; returns
    /// what the other pod says there.
    async fn say(
        &self,
        stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
        words: &str,
    ) -> Result<String, Cause> {
        let uri: Uri = self.to.parse()?;
        let host = uri.authority().map_or("", |it| it.as_str());
        let request = format!(
            "POST {PATH} HTTP/1.1\r\nhost: {host}\r\n{LINK}: {words}\r\ncontent-length: 0\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await?;
        stream.flush().await?;
        let mut head = Vec::new();
        // Behind that of a refusal is a body, and nothing else before the next request.
        while !head.windows(4).any(|it| it == b"\r\n\r\n") {
            if stream.read_buf(&mut head).await? == 0 || head.len() > MAX_ANSWER_BYTES {
                return Err("it ended the connection".into());
            }
        }
        let head = String::from_utf8(head)?;
        let mut lines = head.lines();
        let status = lines.next().unwrap_or_default();
        if !status.starts_with("HTTP/1.1 204") {
            return Err(format!("it refuses the key of the cluster: {status}").into());
        }
        let mut fields = lines.filter_map(|line| line.split_once(": "));
        let said = fields.find(|(name, _)| name.eq_ignore_ascii_case(LINK.as_str()));
        Ok(said.map_or_else(String::new, |(_, said)| said.to_owned()))
    }
}

/// So many words, if that is what was said.
pub fn words_of<const N: usize>(said: &str) -> Option<[&str; N]> {
    let words: Vec<&str> = said.split(' ').collect();
    words.try_into().ok()
}

/// Connects, and hands the connection on once it is one to a pod of the cluster.
#[derive(Clone)]
struct Proving<S> {
    connect: S,
    asking: Asking,
}

impl<S, R> Service<R> for Proving<S>
where
    S: Service<R, Error = Cause>,
    S::Response: hyper::rt::Read + hyper::rt::Write + Unpin + Send,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = Cause;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, Cause>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Cause>> {
        self.connect.poll_ready(context)
    }

    fn call(&mut self, to: R) -> Self::Future {
        let (connecting, asking) = (self.connect.call(to), self.asking.clone());
        Box::pin(async move {
            let mut stream = TokioIo::new(connecting.await?);
            asking.prove(&mut stream).await?;
            Ok(stream.into_inner())
        })
    }
}

impl Links {
    /// Answers a hello; who said it is remembered, to be proven.
    pub fn greet(
        &self,
        from: &str,
        nonce_of_from: &str,
        shown: &str,
    ) -> Option<(Greeting, String)> {
        let own = self.own();
        let hello = hex::decode(shown).ok()?;
        let about = parts("hello", from, own, [nonce_of_from, ""]);
        let key = self.asking.keys.of(&about, &hello)?.clone();
        let nonces = [nonce_of_from.to_owned(), nonce().ok()?];
        let [theirs, ours] = &nonces;
        let answer = tag(&key, &parts("answer", from, own, [theirs, ours]));
        let said = format!("answer {ours} {answer}");
        let from = from.to_owned();
        Some((Greeting { from, nonces, key }, said))
    }

    /// The pod that has greeted, if it shows that it is one.
    pub fn proven(&self, greeting: Greeting, shown: &str) -> Option<String> {
        let Greeting { from, nonces, key } = greeting;
        let [theirs, ours] = &nonces;
        let about = parts("proof", &from, self.own(), [theirs, ours]);
        is_tag(&key, &about, shown).then_some(from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::cluster_key::ClusterKey;
    use crate::access::mac::MacKeys;

    const OWN: &str = "http://own:1";
    const OTHER: &str = "http://other:1";

    fn keys(founding: u8) -> MacKeys {
        let key = ClusterKey::of_founding().derive("shop", &[founding; 16], "pods");
        key.unwrap()
    }

    fn tagged(keys: &MacKeys, what: &str, from: &str, to: &str, nonces: [&str; 2]) -> String {
        tag(keys.first().unwrap(), &parts(what, from, to, nonces))
    }

    #[test]
    fn a_pod_is_believed_that_knows_the_key_here_and_now() {
        let (known, wrong) = (keys(1), keys(2));
        let links = Links::new(OWN, known.clone(), None);
        let hello = tagged(&known, "hello", OTHER, OWN, ["n", ""]);
        let greet = || links.greet(OTHER, "n", &hello).unwrap();
        let said = |answer: &str| answer.split(' ').nth(1).unwrap().to_owned();
        let (greeting, answer) = greet();
        let proof = tagged(&known, "proof", OTHER, OWN, ["n", &said(&answer)]);
        assert_eq!(links.proven(greeting, &proof).as_deref(), Some(OTHER));
        // The same on another connection, what this pod said itself, and another key.
        let (greeting, again) = greet();
        assert_ne!(answer, again);
        assert!(links.proven(greeting, &proof).is_none());
        let own_words = greet();
        let shown = own_words.1.split(' ').next_back().unwrap().to_owned();
        assert!(links.proven(own_words.0, &shown).is_none());
        let (greeting, answer) = greet();
        let proof = tagged(&wrong, "proof", OTHER, OWN, ["n", &said(&answer)]);
        assert!(links.proven(greeting, &proof).is_none());
        // A hello of another, to another, with another number, or of another key.
        for (keys, from, to, nonce) in [
            (&known, OWN, OWN, "n"),
            (&known, OTHER, OTHER, "n"),
            (&known, OTHER, OWN, "m"),
            (&wrong, OTHER, OWN, "n"),
        ] {
            let hello = tagged(keys, "hello", from, to, [nonce, ""]);
            assert!(links.greet(OTHER, "n", &hello).is_none());
        }
        assert!(links.greet(OTHER, "n", "").is_none());
        assert!(links.greet(OTHER, "n", "no tag").is_none());
    }

    #[tokio::test]
    async fn nothing_is_sent_to_who_does_not_show_the_key() {
        let asking = Asking {
            own: OWN.into(),
            to: OTHER.into(),
            keys: keys(1),
        };
        let zeros = "00".repeat(32);
        for (answer, words) in [
            (
                format!("HTTP/1.1 204 No Content\r\nCuckood-Link: answer 00 {zeros}\r\n\r\n"),
                "it does not know the key",
            ),
            (
                "HTTP/1.1 204 No Content\r\n\r\n".to_owned(),
                "it says nothing",
            ),
            (
                "HTTP/1.1 403 Forbidden\r\ncontent-length: 2\r\n\r\n{}".to_owned(),
                "it refuses the key of the cluster: HTTP/1.1 403",
            ),
            (String::new(), "it ended the connection"),
            ("x".repeat(2 * MAX_ANSWER_BYTES), "it ended the connection"),
        ] {
            let (mut here, mut there) = tokio::io::duplex(64 << 10);
            let ends = async {
                there.write_all(answer.as_bytes()).await.unwrap();
                there.shutdown().await.unwrap();
                let mut heard = String::new();
                there.read_to_string(&mut heard).await.unwrap();
                heard
            };
            let asks = async {
                let asked = asking.prove(&mut here).await;
                drop(here);
                asked.unwrap_err().to_string()
            };
            let (heard, said) = tokio::join!(ends, asks);
            assert!(said.contains(words), "{said}");
            assert!(heard.starts_with(
                "POST /internal/link HTTP/1.1\r\nhost: other:1\r\ncuckood-link: hello http://own:1 "
            ));
            assert_eq!(heard.matches("POST").count(), 1);
        }
    }
}
