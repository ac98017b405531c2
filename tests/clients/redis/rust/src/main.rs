//! What users of redis-rs and of fred do, in both versions of the protocol.
//!
//!     use-redis-clients PORT [CA_FILE KEY]
//!
//! Where TLS is spoken, SSL_CERT_FILE must name the same file: both look there.

use fred::prelude::{Builder, ClientLike, Config, TransactionInterface as _};
use fred::types::config::TlsConnector;
use fred::types::{ClusterHash, CustomCommand, RespVersion, Value};
use redis::AsyncTypedCommands as _;
use std::error::Error;

type Done = Result<(), Box<dyn Error + Send + Sync>>;

/// Where the server is, and the key that it asks for.
struct Server {
    port: String,
    key: Option<String>,
}

impl Server {
    fn url(&self, more: &str) -> String {
        match &self.key {
            Some(key) => format!("rediss://:{key}@localhost:{}/0{more}", self.port),
            None => format!("redis://127.0.0.1:{}/0{more}", self.port),
        }
    }
}

async fn use_redis_rs(server: &Server, more: &str) -> Done {
    let client = redis::Client::open(server.url(more))?;
    let mut connection = client.get_multiplexed_async_connection().await?;
    connection.del("rs").await?;
    let made: String = redis::cmd("CF.RESERVE")
        .arg("rs")
        .arg(1000)
        .query_async(&mut connection)
        .await?;
    assert_eq!(made, "OK");
    let added: bool = redis::cmd("CF.ADD")
        .arg(&["rs", "a"])
        .query_async(&mut connection)
        .await?;
    let inserted: Vec<bool> = redis::cmd("CF.INSERT")
        .arg(&["rs", "ITEMS", "b", "c"])
        .query_async(&mut connection)
        .await?;
    let known: Vec<bool> = redis::cmd("CF.MEXISTS")
        .arg(&["rs", "a", "zz"])
        .query_async(&mut connection)
        .await?;
    assert!(added && inserted == [true, true] && known == [true, false]);
    let mut pipe = redis::pipe();
    for number in 0..500 {
        pipe.cmd("CF.ADD").arg("rs").arg(number);
    }
    let added: Vec<bool> = pipe.query_async(&mut connection).await?;
    assert!(added.len() == 500 && added.iter().all(|&it| it));
    let mut transaction = redis::pipe();
    transaction.atomic();
    transaction.cmd("CF.DEL").arg(&["rs", "a"]);
    transaction.cmd("CF.COUNT").arg(&["rs", "a"]);
    let (deleted, left): (bool, u64) = transaction.query_async(&mut connection).await?;
    assert!(deleted && left == 0);
    let missing: redis::RedisResult<bool> = redis::cmd("CF.DEL")
        .arg(&["none", "a"])
        .query_async(&mut connection)
        .await;
    // It takes the first word of an error for its code.
    let error = missing.unwrap_err();
    assert_eq!((error.code(), error.detail()), (Some("Not"), Some("found")));
    assert!(connection.exists("rs").await? && connection.expire("rs", 100).await?);
    assert_eq!(connection.del("rs").await?, 1);
    Ok(())
}

fn command(name: &'static str) -> CustomCommand {
    CustomCommand::new_static(name, ClusterHash::FirstKey, false)
}

async fn use_fred(server: &Server, version: RespVersion) -> Done {
    let mut config = Config::from_url(&server.url(""))?;
    config.version = version;
    if server.key.is_some() {
        config.tls = Some(TlsConnector::default_rustls()?.into());
    }
    let client = Builder::from_config(config).build()?;
    client.init().await?;
    let made: String = client
        .custom(command("CF.RESERVE"), vec!["fred", "1000"])
        .await?;
    assert_eq!(made, "OK");
    let added: bool = client.custom(command("CF.ADD"), vec!["fred", "a"]).await?;
    let known: Vec<bool> = client
        .custom(command("CF.MEXISTS"), vec!["fred", "a", "zz"])
        .await?;
    assert!(added && known == [true, false]);
    let pipeline = client.pipeline();
    for number in 0..500 {
        let item = number.to_string();
        let () = pipeline
            .custom(command("CF.ADD"), vec!["fred".to_owned(), item])
            .await?;
    }
    let added: Vec<bool> = pipeline.all().await?;
    assert!(added.len() == 500 && added.iter().all(|&it| it));
    let transaction = client.multi();
    let () = transaction
        .custom(command("CF.DEL"), vec!["fred", "a"])
        .await?;
    let () = transaction
        .custom(command("CF.EXISTS"), vec!["fred", "a"])
        .await?;
    let done: Vec<bool> = transaction.exec(true).await?;
    assert_eq!(done, [true, false]);
    let info: Value = client.custom(command("CF.INFO"), vec!["fred"]).await?;
    assert!(format!("{info:?}").contains("Number of items inserted"));
    let missing: Result<Value, _> = client.custom(command("CF.INFO"), vec!["none"]).await;
    assert!(missing.unwrap_err().to_string().contains("not found"));
    let deleted: i64 = client.custom(command("DEL"), vec!["fred"]).await?;
    assert_eq!(deleted, 1);
    client.quit().await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Done {
    let mut words = std::env::args().skip(1);
    let port = words.next().ok_or("no port")?;
    let server = Server {
        port,
        key: words.nth(1),
    };
    // There is one provider, but both clients bring their own choice of it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    for more in ["", "?protocol=resp3"] {
        use_redis_rs(&server, more).await?;
    }
    println!("redis-rs works");
    for version in [RespVersion::RESP2, RespVersion::RESP3] {
        use_fred(&server, version).await?;
    }
    println!("fred works");
    Ok(())
}
