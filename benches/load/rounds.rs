//! Rounds: what is compared takes turns, so that a neighbour's noise meets
//! everything alike, and what counts is the ratio within a round.

use serde::Serialize;
use std::error::Error;
use std::fmt;

/// Measures once.
pub(crate) type Measure<'a> = Box<dyn FnMut() -> Result<Measured, Box<dyn Error>> + 'a>;

/// What a round of one variant came to.
pub(crate) struct Measured {
    /// How many a second.
    pub(crate) rate: f64,
    /// Processor time that its server took for one, in nanoseconds: it says
    /// more than the rate where others use the machine, too.
    pub(crate) processor: Option<f64>,
}

/// One row: variants that take turns, and which of them are set against each
/// other.
pub(crate) struct Row<'a> {
    /// Its number in the table.
    pub(crate) number: u32,
    /// What is measured.
    pub(crate) what: &'static str,
    /// What is counted per second.
    pub(crate) unit: &'static str,
    /// What takes turns.
    pub(crate) variants: Vec<(String, Measure<'a>)>,
    /// Which ratios are wanted.
    pub(crate) ratios: Vec<Wanted>,
}

/// A ratio of one variant to another, by their positions.
pub(crate) struct Wanted {
    /// What is on top.
    pub(crate) of: usize,
    /// What it is set against.
    pub(crate) to: usize,
    /// What it should be at least.
    pub(crate) bar: Option<f64>,
}

/// Median, least and most of the rounds.
#[derive(Clone, Copy, Serialize)]
pub(crate) struct Spread {
    /// The middle one.
    pub(crate) median: f64,
    /// The least.
    pub(crate) min: f64,
    /// The most.
    pub(crate) max: f64,
}

impl Spread {
    /// Of at least one value.
    pub(crate) fn of(values: &[f64]) -> Spread {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |index: usize| sorted.get(index).copied().unwrap_or(f64::NAN);
        Spread {
            median: at(sorted.len() / 2),
            min: at(0),
            max: at(sorted.len().saturating_sub(1)),
        }
    }
}

/// What a row came to.
#[derive(Serialize)]
pub(crate) struct RowResult {
    row: u32,
    what: &'static str,
    unit: &'static str,
    rates: Vec<Rate>,
    ratios: Vec<Ratio>,
}

#[derive(Serialize)]
struct Rate {
    name: String,
    per_second: Spread,
    processor_nanoseconds: Option<Spread>,
}

#[derive(Serialize)]
struct Ratio {
    of: String,
    to: String,
    ratio: Spread,
    bar: Option<f64>,
}

impl Row<'_> {
    /// A round that does not count, and then those that do.
    ///
    /// # Errors
    /// Those of the variants.
    pub(crate) fn run(mut self, rounds: usize) -> Result<RowResult, Box<dyn Error>> {
        let mut rates: Vec<Vec<f64>> = vec![Vec::new(); self.variants.len()];
        let mut processor = rates.clone();
        for round in 0..=rounds {
            // Each round begins with another one: what one leaves behind in the
            // disk's queue is not always met by the same neighbour.
            for turn in 0..self.variants.len() {
                let at = (round + turn) % self.variants.len();
                let Some((_, measure)) = self.variants.get_mut(at) else {
                    continue;
                };
                let measured = measure()?;
                if round == 0 {
                    continue;
                }
                if let (Some(rates), Some(processor)) = (rates.get_mut(at), processor.get_mut(at)) {
                    rates.push(measured.rate);
                    processor.extend(measured.processor);
                }
            }
        }
        let name = |at: usize| self.variants.get(at).map(|it| it.0.clone());
        let ratios = self.ratios.iter().filter_map(|wanted| {
            let (of, to) = (rates.get(wanted.of)?, rates.get(wanted.to)?);
            let of_rounds: Vec<f64> = of.iter().zip(to).map(|(of, to)| of / to).collect();
            Some(Ratio {
                of: name(wanted.of)?,
                to: name(wanted.to)?,
                ratio: Spread::of(&of_rounds),
                bar: wanted.bar,
            })
        });
        Ok(RowResult {
            row: self.number,
            what: self.what,
            unit: self.unit,
            ratios: ratios.collect(),
            rates: rates
                .iter()
                .zip(&processor)
                .enumerate()
                .map(|(at, (rates, processor))| Rate {
                    name: name(at).unwrap_or_default(),
                    per_second: Spread::of(rates),
                    processor_nanoseconds: (!processor.is_empty()).then(|| Spread::of(processor)),
                })
                .collect(),
        })
    }
}

/// Rows of a Markdown table.
impl fmt::Display for RowResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (row, what, unit) = (self.row, self.what, self.unit);
        for rate in &self.rates {
            let Rate {
                name, per_second, ..
            } = rate;
            let processor = rate.processor_nanoseconds.map_or(String::new(), |spread| {
                format!("{} ns", short(spread.median))
            });
            let [median, min, max] = [per_second.median, per_second.min, per_second.max].map(short);
            writeln!(
                f,
                "| {row} | {what} | {name} | {median} {unit}/s | {min} | {max} | {processor} | |"
            )?;
        }
        for ratio in &self.ratios {
            let Ratio { of, to, ratio, bar } = ratio;
            let bar = bar.map_or(String::new(), |bar| format!("at least {bar}"));
            writeln!(
                f,
                "| {row} | | {of} : {to} | **{:.2}** | {:.2} | {:.2} | | {bar} |",
                ratio.median, ratio.min, ratio.max
            )?;
        }
        Ok(())
    }
}

/// A number as people read it.
pub(crate) fn short(number: f64) -> String {
    match number {
        it if it >= 1e7 => format!("{:.1}M", it / 1e6),
        it if it >= 1e6 => format!("{:.2}M", it / 1e6),
        it if it >= 1e4 => format!("{:.1}k", it / 1e3),
        it => format!("{it:.0}"),
    }
}
