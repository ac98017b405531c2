//! All clients at once, and how they rest while they are judged.

use crate::checks::check;
use crate::clients::{Kind, Owner, Sharer};
use crate::cluster::{COUNT, Cluster};
use crate::errand::{GOES_ON_WITHIN, Over, World};
use crate::random::{Random, from_environment};
use crate::readers::{ask_any, watch};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

/// Clients that share a filter.
const SHARERS: usize = 2;

/// Changes that each client does after a fault before it is judged.
const GOES_ON: u64 = 3;

/// Clients at work.
pub(crate) struct Load {
    pub(crate) world: World,
    owners: Vec<Mutex<Option<Owner>>>,
    sharers: Vec<Mutex<Option<Sharer>>>,
    /// Changes that each client has done.
    done: Vec<AtomicU64>,
    lives: [AtomicU64; COUNT],
    /// The clients are to rest.
    rest: AtomicBool,
}

/// Ends the clients, however the test ends.
struct End<'a>(&'a World);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Relaxed);
    }
}

/// Does something while clients change filters and ask.
pub(crate) fn during_load(
    cluster: &mut Cluster,
    random: &mut Random,
    test: impl FnOnce(&mut Random, &mut Cluster, &Load),
) {
    let of = |_| AtomicU64::new(0);
    let owners = Kind::ALL.len();
    let load = Load {
        world: World::new(cluster.addresses.clone()),
        owners: (0..owners).map(|_| Mutex::default()).collect(),
        sharers: (0..SHARERS).map(|_| Mutex::default()).collect(),
        done: (0..owners + SHARERS).map(of).collect(),
        lives: [0; COUNT].map(AtomicU64::new),
        rest: AtomicBool::new(false),
    };
    let (load, world) = (&load, &load.world);
    thread::scope(|scope| {
        let _end = End(world);
        for (number, kind) in Kind::ALL.into_iter().enumerate() {
            let random = Random(random.next());
            scope.spawn(move || {
                let name = format!("own-{number}");
                let made = Owner::new(world, &name, kind, random);
                load.work(number, &load.owners[number], made, Owner::step)
            });
        }
        for number in 0..SHARERS {
            let random = Random(random.next());
            scope.spawn(move || {
                let made = Sharer::new(world, number, random);
                load.work(owners + number, &load.sharers[number], made, Sharer::step)
            });
        }
        for pod in 0..COUNT {
            scope.spawn(move || watch(world, pod, &load.lives[pod]));
        }
        let asking = Random(random.next());
        scope.spawn(move || ask_any(world, asking));
        load.go_on(cluster);
        test(random, cluster, load);
    });
}

impl Load {
    /// One change after the other, until the test is over or something is wrong.
    fn work<T>(
        &self,
        number: usize,
        slot: &Mutex<Option<T>>,
        made: Result<T, Over>,
        step: impl Fn(&mut T, &World) -> Result<(), Over>,
    ) {
        let Ok(made) = made else { return };
        *slot.lock().unwrap() = Some(made);
        while !self.world.is_over() {
            while self.rest.load(Ordering::SeqCst) {
                thread::sleep(Duration::from_millis(5));
            }
            // Whoever judges holds this.
            let mut client = slot.lock().unwrap();
            let Some(client) = client.as_mut() else {
                return;
            };
            if step(client, &self.world).is_err() {
                return;
            }
            self.done[number].fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Waits for something. Starts what gave up meanwhile.
    pub(crate) fn wait(&self, cluster: &mut Cluster, is_there: impl Fn(&Load, Duration) -> bool) {
        let started = Instant::now();
        while !is_there(self, started.elapsed()) {
            for (pod, life) in cluster.pods.iter().zip(&self.lives) {
                life.store(pod.lives, Ordering::SeqCst);
            }
            if let Err(how) = cluster.restart_what_gave_up() {
                panic!("{how}");
            }
            self.fail_if_wrong(cluster);
            let is_late = started.elapsed() > GOES_ON_WITHIN + Duration::from_secs(20);
            assert!(
                !is_late,
                "changes do not go on: {:?}\n{}",
                self.done,
                logs(cluster)
            );
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn fail_if_wrong(&self, cluster: &Cluster) {
        let wrong = self.world.wrong();
        if let Some(seconds) = from_environment("CUCKOOD_CHAOS_HOLD")
            && !wrong.is_empty()
        {
            println!("{wrong:#?}");
            thread::sleep(Duration::from_secs(seconds));
        }
        assert!(wrong.is_empty(), "{wrong:#?}\n{}", logs(cluster));
    }

    /// Waits until every client has done a few more changes.
    pub(crate) fn go_on(&self, cluster: &mut Cluster) {
        let now = |load: &Load| -> Vec<u64> {
            let all = load.done.iter();
            all.map(|it| it.load(Ordering::SeqCst)).collect()
        };
        let before = now(self);
        self.wait(cluster, |load, _| {
            let now = now(load);
            std::iter::zip(now, &before).all(|(now, before)| now >= before + GOES_ON)
        });
    }

    /// Has the clients rest, and checks everything.
    pub(crate) fn check(&self, cluster: &Cluster) {
        self.rest.store(true, Ordering::SeqCst);
        let owners: Vec<MutexGuard<'_, Option<Owner>>> =
            self.owners.iter().map(|it| it.lock().unwrap()).collect();
        let sharers: Vec<MutexGuard<'_, Option<Sharer>>> =
            self.sharers.iter().map(|it| it.lock().unwrap()).collect();
        self.fail_if_wrong(cluster);
        let owners: Vec<&Owner> = owners.iter().filter_map(|it| it.as_ref()).collect();
        let sharers: Vec<&Sharer> = sharers.iter().filter_map(|it| it.as_ref()).collect();
        for wrong in check(&self.world, &owners, &sharers) {
            self.world.accuse(wrong);
        }
        self.rest.store(false, Ordering::SeqCst);
        self.fail_if_wrong(cluster);
    }
}

fn logs(cluster: &Cluster) -> String {
    let nodes = cluster.pods.iter();
    let logs = nodes.map(|it| format!("{}:\n{}\n", it.name, it.log(25)));
    logs.collect()
}
