//! What it costs commits that the number of the last forced write is kept.

use super::*;

const ROUNDS: usize = 20;
const ROUND: Duration = Duration::from_secs(3);

/// Latencies of forced commits for a while, in ascending order, in microseconds.
fn commits(store: &PageStore, sequence: &mut u64) -> Vec<f64> {
    let (began, mut spent) = (Instant::now(), Vec::new());
    while began.elapsed() < ROUND {
        *sequence += 1;
        let commit = Commit {
            sequence: Sequence(*sequence),
            redo: vec![1; 1000],
            ..Commit::default()
        };
        let sent = Instant::now();
        store.commit(&commit).unwrap();
        spent.push(sent.elapsed().as_secs_f64() * 1e6);
    }
    spent.sort_by(f64::total_cmp);
    spent
}

fn quantile(sorted: &[f64], part: f64) -> f64 {
    sorted[((sorted.len() - 1) as f64 * part) as usize]
}

pub(super) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    quantile(&values, 0.5)
}

/// Two directories, one with the file `FORCED` and one without, in turns.
#[test]
#[ignore = "two minutes, and a machine that does nothing else"]
fn what_the_number_of_the_last_forced_write_costs_commits() {
    let parent = std::env::current_dir().unwrap().join("target");
    let places = [(); 2].map(|()| tempfile::tempdir_in(&parent).unwrap());
    let stores = [0, 1].map(|arm| {
        let always = RocksOptions {
            wal_sync: WalSync::Always,
            ..RocksOptions::default()
        };
        let mut rocks = RocksStore::open(places[arm].path(), always).unwrap();
        if arm == 1 {
            rocks.keeping = None;
        }
        PageStore::open(Arc::new(rocks)).unwrap()
    });
    let mut sequences = [0; 2];
    for (store, sequence) in stores.iter().zip(&mut sequences) {
        commits(store, sequence);
    }
    let parts = [0.5, 0.99, 1.0];
    let mut rounds = [(); 2].map(|()| parts.map(|_| Vec::new()));
    for round in 0..ROUNDS {
        for turn in 0..2 {
            let arm = (round + turn) % 2;
            let spent = commits(&stores[arm], &mut sequences[arm]);
            for (part, found) in parts.iter().zip(&mut rounds[arm]) {
                found.push(quantile(&spent, *part));
            }
        }
    }
    let [with, without] = rounds;
    println!(
        "| microseconds, median of {ROUNDS} rounds | with FORCED | without | ratio of a round |"
    );
    println!("|---|---|---|---|");
    for ((name, with), without) in ["median", "p99", "slowest"].iter().zip(with).zip(without) {
        let ratios = with
            .iter()
            .zip(&without)
            .map(|(with, without)| with / without);
        let ratio = median(ratios.collect());
        let (with, without) = (median(with), median(without));
        println!("| {name} | {with:.0} | {without:.0} | {ratio:.3} |");
    }
}
