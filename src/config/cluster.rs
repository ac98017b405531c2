//! The cluster that a server is a part of, and the brokers that keep its log.

use super::errors::ConfigErrors;
use super::size::ByteSize;
use crate::cluster::jetstream::{Brokers, ClusterName};
use axum::http::Uri;
use clap::Args;
use std::net::IpAddr;
use std::path::PathBuf;

/// The brokers of a cluster.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Cluster")]
pub struct BrokerConfig {
    /// Addresses of the brokers (NATS servers with JetStream) that keep the log of the cluster, such as nats://a:4222,nats://b:4222; tls:// for TLS [default: none; the server is in no cluster].
    #[arg(long, env = "CUCKOOD_LOG", value_delimiter = ',')]
    pub log: Vec<String>,

    /// Name of the cluster: 1 to 32 characters of A-Z a-z 0-9 _ - [default: none].
    #[arg(long, env = "CUCKOOD_CLUSTER")]
    pub cluster: Option<String>,

    /// File with the credentials that the brokers ask for: a line `name: password`, or as nsc writes it [default: none].
    #[arg(long, env = "CUCKOOD_LOG_CREDENTIALS")]
    pub log_credentials: Option<PathBuf>,

    /// File of certificate authorities, in PEM; one of them must have signed the brokers' certificates [default: those that this system trusts].
    #[arg(long, env = "CUCKOOD_LOG_CA_FILE")]
    pub log_ca_file: Option<PathBuf>,

    /// File with the key by which pods of the cluster know each other, 32 to 256 characters; of several lines the first one is used, all are believed; the word `founding` stands for the default [default: one that whoever may read the log of the brokers can know].
    #[arg(long, env = "CUCKOOD_CLUSTER_KEY_FILE")]
    pub cluster_key_file: Option<PathBuf>,

    /// Monitoring addresses of all brokers, such as http://a:8222,http://b:8222: there it is seen whether they force what they acknowledge to their disks [default: none].
    #[arg(long, env = "CUCKOOD_LOG_MONITOR", value_delimiter = ',')]
    pub log_monitor: Vec<String>,

    /// Use brokers even if they may lose acknowledged changes in a power cut, or if that could not be seen.
    #[arg(long, env = "CUCKOOD_LOG_UNSAFE")]
    pub log_unsafe: bool,
}

/// A server's part in a cluster.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Cluster")]
pub struct ClusterConfig {
    /// The brokers.
    #[command(flatten)]
    pub brokers: BrokerConfig,

    /// Address at which the other pods of the cluster reach this one, such as http://pod-0:8080; each has one of its own. Needs --log [default: none].
    #[arg(long, env = "CUCKOOD_ADVERTISE")]
    pub advertise: Option<String>,

    /// Bytes that the commit log keeps of changes that every pod has, all brokers' copies counted once [default: as many as the pod's data take, 1GiB at least].
    #[arg(long, env = "CUCKOOD_LOG_KEEP_BYTES")]
    pub log_keep_bytes: Option<ByteSize>,

    /// Bytes a second at which this pod gives its state to another one that can't read it from the log any more.
    #[arg(
        long,
        env = "CUCKOOD_SNAPSHOT_BYTES_PER_SECOND",
        default_value = "128MiB"
    )]
    pub snapshot_bytes_per_second: ByteSize,

    /// File of certificate authorities, in PEM, for other pods at https addresses [default: those that this system trusts].
    #[arg(long, env = "CUCKOOD_CLUSTER_CA_FILE")]
    pub cluster_ca_file: Option<PathBuf>,

    /// Feature level of records that the server says it understands, in place of its own: for tests of upgrades.
    #[arg(long, env = "CUCKOOD_TEST_FEATURE_LEVEL", hide = true)]
    pub test_feature_level: Option<u16>,
}

/// The brokers of a cluster, checked.
#[derive(Clone, Debug)]
pub struct BrokerSettings {
    /// Where they are.
    pub brokers: Brokers,
    /// The cluster.
    pub cluster: ClusterName,
    /// The file with the key of the cluster, if it has one of its own.
    pub key_file: Option<PathBuf>,
    /// Where they are monitored.
    pub monitors: Vec<String>,
    /// Whether they may lose what they acknowledge.
    pub may_lose: bool,
}

impl BrokerSettings {
    /// What is missing where other machines reach the brokers, so that anybody may who
    /// does.
    pub fn lacks(&self) -> Option<&'static str> {
        let brokers = &self.brokers;
        if brokers.servers.iter().all(|it| is_loopback(it)) {
            return None;
        }
        let is_plain = brokers.servers.iter().any(|it| !it.starts_with("tls://"));
        match (brokers.credentials_file.is_none(), is_plain) {
            (true, true) => Some("neither credentials (--log-credentials) nor TLS (tls://)"),
            (true, false) => Some("no credentials (--log-credentials)"),
            (false, _) => None,
        }
    }
}

/// A server's part in a cluster, checked.
#[derive(Clone, Debug)]
pub struct ClusterSettings {
    /// The cluster's brokers.
    pub brokers: BrokerSettings,
    /// Where others reach this pod, without a slash at the end.
    pub address: String,
    /// Whether other machines reach the address.
    pub is_reached_from_elsewhere: bool,
    /// Bytes that the commit log keeps, if that was said.
    pub log_keep_bytes: Option<u64>,
    /// Bytes a second at which snapshots are given.
    pub snapshot_bytes_per_second: u64,
    /// The authorities of other pods' certificates.
    pub ca_file: Option<PathBuf>,
    /// Lanes that the command line asks for; a cluster has those it was founded
    /// with.
    pub lanes: Option<usize>,
    /// The feature level in place of the program's own.
    pub level: Option<u16>,
}

impl BrokerConfig {
    /// Log levels that stand where they stood before --log was for brokers.
    pub(super) fn levels(&self) -> Option<String> {
        let are_levels = !self.log.is_empty() && !self.log.iter().any(|it| it.contains(':'));
        are_levels.then(|| self.log.join(","))
    }

    /// The brokers that are named; `None`: none are.
    ///
    /// # Errors
    /// Everything that is wrong.
    pub fn settings(&self) -> Result<Option<BrokerSettings>, ConfigErrors> {
        let mut errors = ConfigErrors::default();
        let settings = self.check(&mut errors);
        match errors.0.is_empty() {
            true => Ok(settings),
            false => Err(errors),
        }
    }

    fn check(&self, errors: &mut ConfigErrors) -> Option<BrokerSettings> {
        if self.log.is_empty() || self.levels().is_some() {
            if self.cluster.is_some() {
                errors.add(
                    "--cluster needs --log: name the brokers, such as --log nats://127.0.0.1:4222",
                );
            }
            return None;
        }
        let is_no_address = |it: &&String| !is_address(it, &["nats", "tls"]);
        for broker in self.log.iter().filter(is_no_address) {
            if broker.contains('@') {
                errors.add("--log has an address with a name or a password, which would stand in logs: give them in a file, --log-credentials");
                continue;
            }
            errors.add(format!(
                "--log has {broker:?}, allowed are addresses of brokers such as nats://127.0.0.1:4222, separated by commas; log levels are --log-level"
            ));
        }
        for monitor in &self.log_monitor {
            if !is_address(monitor, &["http", "https"]) {
                errors.add(format!(
                    "--log-monitor has {monitor:?}, allowed are addresses such as http://127.0.0.1:8222, separated by commas"
                ));
            }
        }
        let plain = self.log.iter().find(|it| !it.starts_with("tls://"));
        if let (Some(_), Some(plain)) = (&self.log_ca_file, plain) {
            errors.add(format!(
                "--log-ca-file is for brokers that speak TLS, and --log has {plain:?}: use tls:// there, or leave --log-ca-file out"
            ));
        }
        let Some(cluster) = &self.cluster else {
            errors.add("--log needs --cluster: the name of the cluster, such as --cluster shop");
            return None;
        };
        let cluster = ClusterName::new(cluster)
            .inspect_err(|error| errors.add(format!("--cluster: {error}")))
            .ok()?;
        Some(BrokerSettings {
            brokers: Brokers {
                servers: self.log.clone(),
                credentials_file: self.log_credentials.clone(),
                inbox: Some(format!("_INBOX.cuckood_{cluster}")),
                ca_file: self.log_ca_file.clone(),
            },
            cluster,
            key_file: self.cluster_key_file.clone(),
            monitors: self.log_monitor.clone(),
            may_lose: self.log_unsafe,
        })
    }
}

impl ClusterConfig {
    pub(super) fn check(
        &self,
        lanes: Option<usize>,
        errors: &mut ConfigErrors,
    ) -> Option<ClusterSettings> {
        let found = errors.0.len();
        let brokers = self.brokers.check(errors);
        let Some(address) = &self.advertise else {
            if brokers.is_some() {
                errors.add(
                    "--log needs --advertise: the address at which other pods reach this one, such as --advertise http://pod-0:8080",
                );
            }
            return None;
        };
        if !is_address(address, &["http", "https"]) {
            errors.add(format!(
                "--advertise is {address:?}, allowed is an address without a path, such as http://pod-0:8080"
            ));
        }
        if brokers.is_none() && errors.0.len() == found {
            errors.add(
                "--advertise needs --log and --cluster: leave it out for a server in no cluster",
            );
        }
        Some(ClusterSettings {
            brokers: brokers?,
            is_reached_from_elsewhere: !is_loopback(address),
            log_keep_bytes: self.log_keep_bytes.map(|it| it.0),
            snapshot_bytes_per_second: self.snapshot_bytes_per_second.0,
            address: address.trim_end_matches('/').to_owned(),
            ca_file: self.cluster_ca_file.clone(),
            level: self.test_feature_level,
            lanes,
        })
    }

    /// The host by which other pods call this one.
    pub(super) fn host(&self) -> Option<String> {
        let uri: Uri = self.advertise.as_ref()?.parse().ok()?;
        uri.host().map(str::to_owned)
    }
}

/// Whether an address can be reached from this machine alone.
fn is_loopback(address: &str) -> bool {
    let uri = address.parse::<Uri>().ok();
    let host = uri.as_ref().and_then(Uri::host).unwrap_or_default();
    let host = host.trim_matches(['[', ']']);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|it| it.is_loopback())
}

/// Whether it is a URL of one of these schemes, with a host and without a path.
fn is_address(text: &str, schemes: &[&str]) -> bool {
    text.parse::<Uri>().is_ok_and(|uri| {
        uri.scheme_str().is_some_and(|it| schemes.contains(&it))
            && uri.host().is_some_and(|it| !it.is_empty())
            && uri.authority().is_some_and(|it| !it.as_str().contains('@'))
            && uri.query().is_none()
            && matches!(uri.path(), "" | "/")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_this_machine_alone_is_told_from_others() {
        for address in [
            "http://127.0.0.1:8080",
            "https://localhost",
            "http://[::1]:1",
        ] {
            assert!(is_loopback(address), "{address}");
        }
        for other in [
            "http://pod-0:8080",
            "http://10.0.0.1",
            "http://127.0.0.1.example",
            "",
        ] {
            assert!(!is_loopback(other), "{other}");
        }
    }

    fn brokers(log: &[&str], credentials: bool, ca_file: bool) -> BrokerConfig {
        BrokerConfig {
            log: log.iter().map(|&it| it.to_owned()).collect(),
            cluster: Some("shop".to_owned()),
            log_credentials: credentials.then(|| "file".into()),
            log_ca_file: ca_file.then(|| "file".into()),
            cluster_key_file: None,
            log_monitor: Vec::new(),
            log_unsafe: false,
        }
    }

    #[test]
    fn brokers_elsewhere_without_credentials_are_said_to_lack_them() {
        for (log, credentials, lacks) in [
            (&["nats://127.0.0.1", "nats://localhost:1"][..], false, None),
            (&["nats://127.0.0.1", "nats://a"], false, Some("neither")),
            (&["nats://a"], true, None),
            (&["tls://a"], false, Some("no credentials")),
            (&["tls://a"], true, None),
        ] {
            let settings = brokers(log, credentials, false).settings().unwrap();
            let said = settings.unwrap().lacks();
            assert_eq!(said.is_some(), lacks.is_some(), "{log:?}");
            assert!(
                said.unwrap_or_default()
                    .starts_with(lacks.unwrap_or_default())
            );
        }
    }

    #[test]
    fn an_authority_is_for_brokers_that_speak_tls() {
        assert!(brokers(&["tls://a"], false, true).settings().is_ok());
        for log in [&["nats://a"][..], &["tls://a", "nats://b"]] {
            let refused = brokers(log, false, true).settings().unwrap_err();
            assert!(refused.to_string().contains("--log-ca-file is for"));
        }
    }

    #[test]
    fn an_address_has_a_scheme_and_a_host_and_no_path() {
        let schemes = ["nats", "tls"];
        for address in [
            "nats://a:4222",
            "tls://10.0.0.1:4222",
            "nats://[::1]:4222",
            "nats://a",
        ] {
            assert!(is_address(address, &schemes), "{address}");
        }
        for other in [
            "a:4222",
            "http://a:4222",
            "nats://",
            "nats://a:4222/x",
            "nats://me:secret@a:4222",
            "info",
            "",
        ] {
            assert!(!is_address(other, &schemes), "{other}");
        }
    }
}
