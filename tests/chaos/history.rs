//! Whether what clients of three pods see could have happened, while things fail: of a
//! few items that all of them change and ask for with `cuckood-consistency: strong`,
//! in one order; of items of their own, which they ask any pod for with
//! `cuckood-min-position`, exactly as they are.
//!
//! `CUCKOOD_HISTORY_OPERATIONS` sets how many operations, `CUCKOOD_HISTORY_SEED`
//! repeats the choices of an earlier run.

use crate::checker::{Done, Operation, check};
use crate::cluster::Cluster;
use crate::errand::{Ask, World};
use crate::faults::{Fault, Kind};
use crate::hosts::{Place, place};
use crate::nats_server;
use crate::random::{Random, from_environment, seed};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Where nobody says how many.
const FEW: u64 = 6_000;

const CLIENTS: u64 = 12;

/// Few, so that clients meet.
const ITEMS: u64 = 24;

/// How long it is quiet between two faults.
const QUIET: Duration = Duration::from_secs(3);

/// Operations that there are between two faults, however long they take.
const GO_ON: u64 = 200;

const FILTER: &str = "/filters/history";

/// What one client saw of which item.
type Seen = Vec<(u64, Operation)>;

#[test]
fn changes_and_strong_questions_of_three_pods_could_have_happened_in_one_order() {
    let test =
        "history::changes_and_strong_questions_of_three_pods_could_have_happened_in_one_order";
    let seen = Mutex::new(Seen::new());
    let Some(went) = while_things_fail(test, |client, run| {
        let mut own = Seen::new();
        let mut random = Random(run.seed);
        for request in 0.. {
            if run.is_over() {
                break;
            }
            let before = own.len();
            let key = format!("{client}-{request}");
            work(&mut random, run.world, &key, run.started, &mut own);
            let done = (own.len() - before) as u64;
            run.done.fetch_add(done, Ordering::Relaxed);
        }
        seen.lock().unwrap().extend(own);
    }) else {
        return;
    };
    let seen = seen.into_inner().unwrap();
    for item in 0..ITEMS {
        let of_item = seen.iter().filter(|it| it.0 == item);
        let history: Vec<Operation> = of_item.map(|it| it.1).collect();
        assert_eq!(check(&history), Ok(()), "item {item}");
    }
    println!("{ITEMS} histories, {went}: 0 impossible");
}

#[test]
fn clients_of_three_pods_read_what_they_wrote_on_any_of_them() {
    let test = "history::clients_of_three_pods_read_what_they_wrote_on_any_of_them";
    let read = AtomicU64::new(0);
    let Some(went) = while_things_fail(test, |client, run| {
        let mut random = Random(run.seed);
        let mut mine = Mine::default();
        for request in 0.. {
            if run.is_over() {
                break;
            }
            let key = format!("mine-{client}-{request}");
            let Some(changed) = mine.change(&mut random, run.world, &key) else {
                break;
            };
            let found = mine.read(&mut random, run.world, client);
            read.fetch_add(found, Ordering::Relaxed);
            run.done.fetch_add(changed + found, Ordering::Relaxed);
        }
    }) else {
        return;
    };
    let read = read.into_inner();
    println!("{read} items were read after a change to them, {went}: 0 wrong");
    assert!(read > 0);
}

/// What a client of one run knows.
struct Run<'a> {
    world: &'a World,
    seed: u64,
    started: &'a Instant,
    /// Operations of all clients.
    done: &'a AtomicU64,
    wanted: u64,
}

impl Run<'_> {
    fn is_over(&self) -> bool {
        self.done.load(Ordering::Relaxed) >= self.wanted || self.world.is_over()
    }
}

/// Has clients work until there are as many operations as are wanted, while one fault
/// follows the other. Says what it came to, or nothing if this is not the place.
fn while_things_fail(test: &str, client: impl Fn(u64, Run<'_>) + Sync) -> Option<String> {
    if !nats_server::is_there() {
        return None;
    }
    let place = place(test);
    if place == Place::Passed {
        return None;
    }
    let wanted = from_environment("CUCKOOD_HISTORY_OPERATIONS").unwrap_or(FEW);
    let seed = seed("CUCKOOD_HISTORY_SEED");
    println!("CUCKOOD_HISTORY_SEED={seed} CUCKOOD_HISTORY_OPERATIONS={wanted}");
    let mut random = Random(seed);
    let mut cluster = Cluster::start(place);
    let world = World::new(cluster.addresses.clone());
    // With 32 bits no item looks like another.
    let parameters = r#"{"capacity": 500, "fingerprint_bits": 32}"#;
    let made = world.change(&mut random, "make", Ask::json("PUT", FILTER, parameters));
    assert!(made.is_ok_and(|it| it.status == 201));

    let started = Instant::now();
    let (done, ended) = (AtomicU64::new(0), AtomicU64::new(0));
    let mut faults = 0;
    thread::scope(|scope| {
        for number in 0..CLIENTS {
            let run = Run {
                world: &world,
                seed: random.next(),
                started: &started,
                done: &done,
                wanted,
            };
            let (client, ended) = (&client, &ended);
            scope.spawn(move || {
                client(number, run);
                ended.fetch_add(1, Ordering::SeqCst);
            });
        }
        let wait = |cluster: &mut Cluster, until: Duration| {
            let since = Instant::now();
            while since.elapsed() < until && ended.load(Ordering::SeqCst) < CLIENTS {
                let wrong = cluster.restart_what_gave_up().err();
                if let Some(wrong) = wrong.or(world.wrong().pop()) {
                    world.is_over.store(true, Ordering::Relaxed);
                    panic!("{wrong}");
                }
                thread::sleep(Duration::from_millis(10));
            }
        };
        while ended.load(Ordering::SeqCst) < CLIENTS {
            let kinds = Kind::all(&cluster);
            let kind = kinds[random.below(kinds.len() as u64) as usize];
            let fault = Fault::new(kind, &cluster, &mut random);
            println!("{} operations, {fault}", done.load(Ordering::Relaxed));
            fault.begin(&mut cluster, &mut random);
            wait(&mut cluster, fault.lasts);
            fault.end(&mut cluster);
            faults += 1;
            let goes_on = done.load(Ordering::Relaxed) + GO_ON;
            wait(&mut cluster, QUIET);
            while done.load(Ordering::Relaxed) < goes_on.min(wanted) {
                wait(&mut cluster, Duration::from_millis(100));
            }
        }
    });
    assert_eq!(world.wrong(), Vec::<String>::new());
    let (count, seconds) = (done.into_inner(), started.elapsed().as_secs());
    assert!(count >= wanted);
    Some(format!("{count} operations, {faults} faults, {seconds} s"))
}

/// Items that one client alone changes, and how many copies of each there are.
#[derive(Default)]
struct Mine {
    copies: [u64; ITEMS as usize],
    position: String,
}

impl Mine {
    /// Adds some items, or deletes those that are there; says how many.
    fn change(&mut self, random: &mut Random, world: &World, key: &str) -> Option<u64> {
        let some = some_items(random);
        let gone = |it: &u64| self.copies[*it as usize] > 0;
        let path = match random.below(2) == 0 && some.iter().all(gone) {
            true => "items/delete",
            false => "items",
        };
        let (is_add, path) = (path == "items", format!("{FILTER}/{path}"));
        let owner = key.split('-').nth(1).unwrap();
        let body = names(&some, owner);
        let answer = world.change(random, key, Ask::lines(&path, &body)).ok()?;
        let expected = if is_add { "added" } else { "true" };
        if answer.status != 200 || answer.text.lines().any(|it| it != expected) {
            world.accuse(format!("{path}: {answer:?}"));
            return None;
        }
        for item in &some {
            let copies = &mut self.copies[*item as usize];
            *copies = if is_add { *copies + 1 } else { *copies - 1 };
        }
        self.position = answer.position.unwrap();
        Some(some.len() as u64)
    }

    /// Asks any pod for some of them; says how many it answered, which it need not.
    fn read(&self, random: &mut Random, world: &World, owner: u64) -> u64 {
        let some = some_items(random);
        let pod = random.below(world.addresses.len() as u64) as usize;
        let body = names(&some, &owner.to_string());
        let path = format!("{FILTER}/count");
        let headers = [("cuckood-min-position", self.position.as_str())];
        let Some(answer) = world.ask(pod, Ask::lines(&path, &body).with(&headers)) else {
            return 0;
        };
        if answer.status == 503 {
            return 0;
        }
        let copies = some.iter().map(|it| self.copies[*it as usize].to_string());
        if answer.status != 200 || !answer.text.lines().eq(copies.clone()) {
            let expected: Vec<String> = copies.collect();
            world.accuse(format!("pod {pod}, {body:?}: {answer:?}, not {expected:?}"));
            return 0;
        }
        some.len() as u64
    }
}

/// Up to four items in a row.
fn some_items(random: &mut Random) -> Vec<u64> {
    let (count, first) = (1 + random.below(4), random.below(ITEMS));
    (first..first + count).map(|it| it % ITEMS).collect()
}

/// Their names, a line each.
fn names(items: &[u64], owner: &str) -> String {
    let names = items.iter().map(|it| format!("item-{owner}-{it}"));
    names.collect::<Vec<String>>().join("\n")
}

/// One request about some items.
fn work(random: &mut Random, world: &World, key: &str, started: &Instant, seen: &mut Seen) {
    let items = some_items(random);
    let body = names(&items, "all");
    let verb = random.below(10);
    let path = match verb {
        0..2 => "items",
        2 | 3 => "items?only_if_absent=true",
        4..6 => "items/delete",
        6 | 7 => "exists",
        _ => "count",
    };
    let path = format!("{FILTER}/{path}");
    let ask = Ask::lines(&path, &body);
    let called = started.elapsed().as_nanos() as u64;
    let answer = match verb {
        0..6 => world.change(random, key, ask).ok(),
        _ => {
            let pod = random.below(world.addresses.len() as u64) as usize;
            let headers = [("cuckood-consistency", "strong")];
            // One that nobody answers has changed nothing.
            let answer = world.ask(pod, ask.with(&headers));
            answer.filter(|it| it.status != 503)
        }
    };
    let answered = started.elapsed().as_nanos() as u64;
    let Some(answer) = answer else { return };
    if answer.status != 200 || answer.text.lines().count() != items.len() {
        return world.accuse(format!("{path}: {answer:?}"));
    }
    for (item, result) in items.into_iter().zip(answer.text.lines()) {
        let done = match (verb, result) {
            (0..2, "added") => Done::Added,
            (2 | 3, "added") => Done::AddedAsAbsent,
            (2 | 3, "exists") => Done::LeftAsPresent,
            (4..6, "true") => Done::Deleted,
            (4..6, "false") => Done::NoneToDelete,
            (6 | 7, "true") => Done::Found,
            (6 | 7, "false") => Done::Absent,
            (_, copies) => Done::Counted(copies.parse().unwrap()),
        };
        let operation = Operation {
            done,
            called,
            answered,
        };
        seen.push((item, operation));
    }
}
