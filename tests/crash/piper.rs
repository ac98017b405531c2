//! Clients of the Redis protocol, each with a filter of its own: pipelines and
//! transactions that a kill cuts. What was not answered is done from its
//! beginning to some command; of a transaction all or nothing.

use crate::load::Life;
use crate::random::Random;
use crate::server::Server;
use redis::{Cmd, Connection, Pipeline, RedisError, Value};
use serde_json::json;

/// What the names of their filters begin with.
pub(crate) const PREFIX: &str = "piped";

/// Commands of one pipeline, at most.
const MOST_COMMANDS: u64 = 64;

/// Acknowledged items that are asked for at once.
const ASKED_AT_ONCE: usize = 5_000;

/// A command about an item, by its number.
#[derive(Clone, Copy, Debug)]
enum Step {
    Add(u64),
    Delete(u64),
    Ask(u64),
}

impl Step {
    fn command(self, filter: &str) -> Cmd {
        let (verb, item) = match self {
            Step::Add(item) => ("CF.ADD", item),
            Step::Delete(item) => ("CF.DEL", item),
            Step::Ask(item) => ("CF.EXISTS", item),
        };
        let mut command = redis::cmd(verb);
        command.arg(filter).arg(name(item));
        command
    }

    /// By how much it changes the number of items.
    fn change(self) -> i64 {
        match self {
            Step::Add(_) => 1,
            Step::Delete(_) => -1,
            Step::Ask(_) => 0,
        }
    }
}

fn name(item: u64) -> String {
    format!("item {item}")
}

/// One client.
pub(crate) struct Piper {
    filter: String,
    random: Random,
    /// Items that are there for certain, and the next one that is new.
    there: Vec<u64>,
    next: u64,
    /// Items of the filter, without what was never answered.
    items: i64,
    /// What that may have added to them.
    indeterminate: Vec<i64>,
    /// Commands answered.
    pub(crate) answered: u64,
    /// Pipelines and transactions that were cut.
    pub(crate) cut: u64,
}

impl Piper {
    /// Creates its filter.
    pub(crate) fn new(server: &Server, number: u64, seed: u64) -> Piper {
        let filter = format!("{PREFIX} {number}").replace(' ', "{@}");
        let path = filter.replace('{', "%7B").replace('}', "%7D");
        server.create_filter(&path, &json!({"capacity": 2_000, "expansion": 2}));
        Piper {
            filter,
            random: Random(seed),
            there: Vec::new(),
            next: 0,
            items: 0,
            indeterminate: vec![0],
            answered: 0,
            cut: 0,
        }
    }

    pub(crate) fn load(&mut self, port: u16, life: &Life) {
        let client = redis::Client::open(format!("redis://127.0.0.1:{port}")).unwrap();
        if let Ok(mut connection) = client.get_connection() {
            while self.turn(&mut connection) {
                life.pause();
            }
        }
        assert!(life.is_over(), "a command failed while the server was up");
    }

    /// Sends some commands; `false`: the server went before all were answered.
    fn turn(&mut self, connection: &mut Connection) -> bool {
        let steps: Vec<Step> = (0..1 + self.random.below(MOST_COMMANDS))
            .map(|_| self.step())
            .collect();
        let is_transaction = self.random.below(3) == 0;
        let mut pipe = Pipeline::new();
        if is_transaction {
            pipe.atomic();
        }
        for step in &steps {
            pipe.add_command(step.command(&self.filter));
        }
        let sent = connection.send_packed_command(&pipe.get_packed_pipeline());
        let done = match (sent, is_transaction) {
            (Err(error), _) => {
                assert_cut(&error);
                0
            }
            (Ok(()), true) => self.transaction(connection, steps.len()),
            (Ok(()), false) => self.pipeline(connection, steps.len()),
        };
        let (done, left) = steps.split_at(done);
        self.answered += done.len() as u64;
        for step in done {
            self.items += step.change();
            match step {
                Step::Add(item) | Step::Ask(item) => self.there.push(*item),
                Step::Delete(_) => {}
            }
        }
        if left.is_empty() {
            return true;
        }
        self.cut += 1;
        self.indeterminate = match is_transaction {
            true => vec![0, left.iter().map(|step| step.change()).sum()],
            false => prefix_sums(left),
        };
        for step in left {
            if let Step::Ask(item) = step {
                self.there.push(*item);
            }
        }
        false
    }

    /// A command whose answer is yes. No item is in two commands at once.
    fn step(&mut self) -> Step {
        let old = match self.there.len() {
            0 => None,
            items => {
                let at = self.random.below(items as u64) as usize;
                Some(self.there.swap_remove(at))
            }
        };
        match (self.random.below(10), old) {
            (0..3, Some(item)) => Step::Ask(item),
            (3..6, Some(item)) => Step::Delete(item),
            (_, old) => {
                self.there.extend(old);
                self.next += 1;
                Step::Add(self.next)
            }
        }
    }

    /// How many commands of a pipeline are answered.
    fn pipeline(&self, connection: &mut Connection, commands: usize) -> usize {
        let mut replies = (0..commands).map(|_| connection.recv_response());
        let is_done = |reply: &Result<Value, RedisError>| match reply {
            Ok(reply) => {
                assert_eq!(*reply, Value::Int(1), "{}", self.filter);
                true
            }
            Err(error) => {
                assert_cut(error);
                false
            }
        };
        replies.by_ref().take_while(is_done).count()
    }

    /// The same of a transaction: all or none.
    fn transaction(&self, connection: &mut Connection, commands: usize) -> usize {
        for _ in 0..=commands {
            if let Err(error) = connection.recv_response() {
                assert_cut(&error);
                return 0;
            }
        }
        match connection.recv_response() {
            Ok(Value::Array(replies)) => {
                assert_eq!(replies, vec![Value::Int(1); commands], "{}", self.filter);
                commands
            }
            Ok(other) => panic!("{}: {other:?}", self.filter),
            Err(error) => {
                assert_cut(&error);
                0
            }
        }
    }

    /// Compares what the server has with what it acknowledged, and takes what it
    /// has as the truth about the rest.
    pub(crate) fn verify(&mut self, port: u16) {
        let client = redis::Client::open(format!("redis://127.0.0.1:{port}")).unwrap();
        let mut connection = client.get_connection().unwrap();
        let info: Vec<Value> = redis::cmd("CF.INFO")
            .arg(&self.filter)
            .query(&mut connection)
            .unwrap();
        let name_of_items = Value::SimpleString("Number of items inserted".to_owned());
        let at = info.iter().position(|it| *it == name_of_items).unwrap();
        let Value::Int(found) = info[at + 1] else {
            panic!("{info:?}");
        };
        assert!(
            self.indeterminate.contains(&(found - self.items)),
            "{} has {found} items; {} were acknowledged and {:?} are indeterminate",
            self.filter,
            self.items,
            self.indeterminate
        );
        (self.items, self.indeterminate) = (found, vec![0]);
        for items in self.there.chunks(ASKED_AT_ONCE) {
            let names: Vec<String> = items.iter().copied().map(name).collect();
            let found: Vec<bool> = redis::cmd("CF.MEXISTS")
                .arg(&self.filter)
                .arg(&names)
                .query(&mut connection)
                .unwrap();
            let lost = names.iter().zip(found).find(|(_, is_there)| !is_there);
            assert_eq!(lost, None, "{}: an acknowledged item is lost", self.filter);
        }
    }
}

/// The changes of a sequence that was done up to any of its steps.
fn prefix_sums(steps: &[Step]) -> Vec<i64> {
    let mut sum = 0;
    let sums = steps.iter().map(|step| {
        sum += step.change();
        sum
    });
    std::iter::once(0).chain(sums).collect()
}

/// An error that says that the server has gone.
fn assert_cut(error: &RedisError) {
    assert!(
        error.is_io_error() || error.is_connection_dropped(),
        "{error}"
    );
}
