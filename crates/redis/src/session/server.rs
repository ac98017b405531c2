//! What the server says of itself.

use super::failure::Result;
use super::state::{Session, wall_clock};
use crate::commands::errors;
use crate::commands::glob::Pattern;
use crate::commands::table::{Spec, Verb};
use crate::protocol::pipeline::Words;
use crate::service::{MODULE, REDIS_VERSION};

const NO_CLUSTER: &str = "ERR This instance has cluster support disabled";

impl Session {
    /// Answers a command about the server.
    pub(super) async fn about_server(&mut self, spec: &'static Spec, words: Words<'_>) -> Result {
        match spec.verb {
            Verb::Info => self.info(words).await?,
            Verb::Config => self.config(words)?,
            Verb::Role => {
                self.replies.array(3);
                self.replies.bulk(b"master");
                self.replies.integer(0);
                self.replies.array(0);
            }
            Verb::Wait => self.replies.integer(0),
            Verb::Time => {
                let now = wall_clock();
                self.replies.array(2);
                let parts = [now.as_secs(), now.subsec_micros().into()];
                self.replies.bulks(parts.map(|it| it.to_string()));
            }
            Verb::Module if words.get(1).eq_ignore_ascii_case(b"list") => self.modules(),
            Verb::Acl if words.get(1).eq_ignore_ascii_case(b"whoami") => {
                let user = self.user().to_owned();
                self.replies.bulk(user.as_bytes());
            }
            Verb::Module | Verb::Acl => return Err(errors::unknown_subcommand(words).into()),
            _ => return Err(NO_CLUSTER.into()),
        }
        Ok(())
    }

    fn config(&mut self, words: Words<'_>) -> Result {
        match (words.get(1).to_ascii_lowercase().as_slice(), words.len()) {
            (b"get", 3..) => {}
            (b"set", _) => return Err("ERR CONFIG SET is not supported".into()),
            (b"get", _) => return Err(errors::arity_of("config", words.get(1)).into()),
            _ => return Err(errors::unknown_subcommand(words).into()),
        }
        let patterns = folded(words.from(2));
        let patterns = Pattern::all(patterns.iter().map(Vec::as_slice))?;
        let mut wanted = self.service.settings();
        wanted.retain(|(name, _)| patterns.iter().any(|it| it.matches(name.as_bytes())));
        self.replies.map(wanted.len());
        for (name, value) in wanted {
            self.replies.bulks([name, value.as_str()]);
        }
        Ok(())
    }

    async fn info(&mut self, words: Words<'_>) -> Result {
        let asked = folded(words.from(1));
        let is_wanted = |section: &str| {
            let all: &[&[u8]] = match section {
                // Long, and for who asks for it.
                "commandstats" => &[b"all", b"everything"],
                _ => &[b"all", b"default", b"everything"],
            };
            let mut names = asked.iter();
            (asked.is_empty() && all.len() > 2)
                || names.any(|it| it == section.as_bytes() || all.contains(&it.as_slice()))
        };
        let replication = "role:master\r\nconnected_slaves:0\r\n".to_owned();
        let mut sections = vec![
            ("Server", self.about_program()),
            ("Clients", self.about_clients()),
            (
                "Persistence",
                format!(
                    "loading:{}\r\nrdb_bgsave_in_progress:0\r\naof_enabled:1\r\naof_rewrite_in_progress:0\r\naof_rewrite_scheduled:0\r\n",
                    i32::from(self.engine().is_err())
                ),
            ),
            ("Replication", replication),
            ("Modules", about_module()),
            ("Cluster", "cluster_enabled:0\r\n".to_owned()),
        ];
        // What tells of other callers is not for those of some filters.
        if self.has_no_prefix() {
            sections.push(("Memory", self.service.about_memory()));
            sections.push(("Stats", self.service.about_stats()));
            if is_wanted("commandstats") {
                sections.push(("Commandstats", self.about_commands()));
            }
            if is_wanted("keyspace")
                && let Ok(engine) = self.engine()
            {
                let _turn = self.large_turn().await?;
                let count = engine.count_filters("").await?;
                let keys = match count {
                    0 => String::new(),
                    _ => format!("db0:keys={count},expires=0,avg_ttl=0\r\n"),
                };
                sections.push(("Keyspace", keys));
            }
        }
        let wanted = sections
            .into_iter()
            .filter(|(name, _)| is_wanted(&name.to_ascii_lowercase()));
        let told: Vec<String> = wanted
            .map(|(name, lines)| format!("# {name}\r\n{lines}"))
            .collect();
        self.replies.text(&told.join("\r\n"));
        Ok(())
    }

    fn about_program(&self) -> String {
        let seconds = self.service.started.elapsed().as_secs();
        format!(
            "redis_version:{REDIS_VERSION}\r\ncuckood_version:{}\r\nredis_mode:standalone\r\narch_bits:{}\r\nprocess_id:{}\r\ntcp_port:{}\r\nuptime_in_seconds:{seconds}\r\nuptime_in_days:{}\r\n",
            env!("CARGO_PKG_VERSION"),
            usize::BITS,
            std::process::id(),
            self.service.options.port,
            seconds / 86_400
        )
    }

    fn about_clients(&self) -> String {
        let mut clients = self.service.clients();
        // How many others there are is not for those of some filters.
        if !self.has_no_prefix() {
            clients.retain(|client| client.is_of(self.user()));
        }
        format!(
            "connected_clients:{}\r\nmaxclients:{}\r\nblocked_clients:0\r\n",
            clients.len(),
            self.service.options.max_connections
        )
    }
}

/// Words in small letters.
fn folded(words: Words<'_>) -> Vec<Vec<u8>> {
    words.iter().map(<[u8]>::to_ascii_lowercase).collect()
}

fn about_module() -> String {
    let (name, version) = MODULE;
    format!("module:name={name},ver={version},api=1,filters=0,usedby=[],using=[],options=[]\r\n")
}
