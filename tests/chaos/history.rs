//! Whether what clients of three pods see of a few items could have happened in one
//! order: changes, and questions with `cuckood-consistency: strong`, sent to any pod,
//! while things fail.
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

const FILTER: &str = "/filters/history";

/// What one client saw of which item.
type Seen = Vec<(u64, Operation)>;

#[test]
fn changes_and_strong_questions_of_three_pods_could_have_happened_in_one_order() {
    if !nats_server::is_there() {
        return;
    }
    let place = place(
        "history::changes_and_strong_questions_of_three_pods_could_have_happened_in_one_order",
    );
    if place == Place::Passed {
        return;
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
    let seen = Mutex::new(Seen::new());
    let mut faults = 0;
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let mut random = Random(random.next());
            let (world, started, done, ended, seen) = (&world, &started, &done, &ended, &seen);
            scope.spawn(move || {
                let mut own = Seen::new();
                for request in 0.. {
                    if done.load(Ordering::Relaxed) >= wanted || world.is_over() {
                        break;
                    }
                    let before = own.len();
                    let key = format!("{client}-{request}");
                    work(&mut random, world, &key, started, &mut own);
                    done.fetch_add((own.len() - before) as u64, Ordering::Relaxed);
                }
                seen.lock().unwrap().extend(own);
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
            wait(&mut cluster, QUIET);
        }
    });
    let seen = seen.into_inner().unwrap();
    let seconds = started.elapsed().as_secs();
    for item in 0..ITEMS {
        let of_item = seen.iter().filter(|it| it.0 == item);
        let history: Vec<Operation> = of_item.map(|it| it.1).collect();
        assert_eq!(check(&history), Ok(()), "item {item}");
    }
    let count = seen.len();
    println!("{count} operations, {ITEMS} histories, {faults} faults, {seconds} s: 0 impossible");
    assert!(count as u64 >= wanted);
}

/// One request about some items.
fn work(random: &mut Random, world: &World, key: &str, started: &Instant, seen: &mut Seen) {
    let count = 1 + random.below(4);
    let first = random.below(ITEMS);
    let items: Vec<u64> = (first..first + count).map(|it| it % ITEMS).collect();
    let names: Vec<String> = items.iter().map(|it| format!("item-{it}")).collect();
    let body = names.join("\n");
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
            answer.filter(|it| ![503, 507].contains(&it.status))
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
