//! Rounds: in each, everything is measured once, one after the other, so that
//! a busy neighbour slows all of it and not one. What counts is the median of
//! the rounds' ratios to the first. Time is what the thread had of a processor:
//! while somebody else has it, nothing counts.

use rustix::time::{ClockId, clock_gettime};

/// Rounds of each comparison; one more goes before them and is not counted.
pub(crate) const ROUNDS: usize = 9;

/// Something to be measured beside others.
pub(crate) struct Contender<'a> {
    name: String,
    work: Box<dyn FnMut() -> u64 + 'a>,
}

/// Makes one: `work` does what is measured some times, and says how often.
pub(crate) fn contender<'a>(
    name: impl Into<String>,
    work: impl FnMut() -> u64 + 'a,
) -> Contender<'a> {
    Contender {
        name: name.into(),
        work: Box::new(work),
    }
}

/// Measures and prints a table of nanoseconds for each `unit`.
pub(crate) fn compare(what: &str, unit: &str, mut contenders: Vec<Contender<'_>>) {
    let mut nanos: Vec<Vec<f64>> = contenders.iter().map(|_| Vec::new()).collect();
    for round in 0..=ROUNDS {
        for (contender, nanos) in contenders.iter_mut().zip(&mut nanos) {
            let started = processor_seconds();
            let units = (contender.work)();
            let spent = (processor_seconds() - started) * 1e9 / units as f64;
            if round > 0 {
                nanos.push(spent);
            }
        }
    }
    println!("\n**{what}**, ns for each {unit}\n");
    println!("| what | median | min | max | ratio |\n|---|---|---|---|---|");
    let first = nanos.first().cloned().unwrap_or_default();
    for (contender, nanos) in contenders.iter().zip(nanos) {
        let ratios = nanos.iter().zip(&first).map(|(own, first)| own / first);
        let ratio = Spread::of(ratios.collect()).median;
        let Spread { min, median, max } = Spread::of(nanos);
        println!(
            "| {} | {median:.1} | {min:.1} | {max:.1} | {ratio:.2} |",
            contender.name
        );
    }
}

/// What this thread had of a processor so far.
pub(crate) fn processor_seconds() -> f64 {
    seconds(ClockId::ThreadCPUTime)
}

/// Since an arbitrary moment, on or off the processor.
pub(crate) fn wall_seconds() -> f64 {
    seconds(ClockId::Monotonic)
}

fn seconds(clock: ClockId) -> f64 {
    let time = clock_gettime(clock);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Some values of the same thing.
#[derive(Clone, Copy)]
pub(crate) struct Spread {
    pub(crate) min: f64,
    pub(crate) median: f64,
    pub(crate) max: f64,
}

impl Spread {
    /// Not a number, if there is no value.
    pub(crate) fn of(mut values: Vec<f64>) -> Spread {
        values.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let last = values.len().saturating_sub(1);
            let position = (last as f64 * share).round() as usize;
            values.get(position).copied().unwrap_or(f64::NAN)
        };
        Spread {
            min: at(0.0),
            median: at(0.5),
            max: at(1.0),
        }
    }
}

/// The value below which such a share of the values lies.
pub(crate) fn percentile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let position = (values.len().saturating_sub(1) as f64 * share).round() as usize;
    values.get(position).copied().unwrap_or(f64::NAN)
}
