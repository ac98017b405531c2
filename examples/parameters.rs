//! Writes the table and the plot of `docs/parameters.md` from the functions
//! that the server itself uses, so that neither has a formula of its own:
//!
//! ```text
//! cargo run --release --example parameters
//! ```
//!
//! Its test says whether what is committed is what it would write.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a tool for those who work on the pages may fail as a test does"
)]

#[path = "../benches/support/legend.rs"]
mod legend;

use cuckood::chain::forecast::{Forecast, forecast};
use cuckood::chain::meta::Chain;
use cuckood::chain::params::{Defaults, FilterParams, FilterRequest};
use cuckood::cuckoo::hash::HashKey;
use legend::legend;
use plotters::prelude::*;
use std::path::PathBuf;

const CAPACITY: u64 = 1_000_000;
/// The right end of the plot, in bytes per item.
const MOST_BYTES: f64 = 12.0;
const BEGIN: &str = "<!-- table:begin (written by cargo run --release --example parameters) -->\n";
const END: &str = "<!-- table:end -->";

fn main() {
    let page = std::fs::read_to_string(page_path()).unwrap();
    std::fs::write(page_path(), with_table(&page)).unwrap();
    std::fs::write(plot_path(), plot()).unwrap();
}

fn page_path() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/parameters.md"))
}

fn plot_path() -> PathBuf {
    page_path().with_file_name("error-by-size.svg")
}

fn asking(error_rate: f64) -> FilterRequest {
    FilterRequest {
        error_rate: Some(error_rate),
        ..FilterRequest::default()
    }
}

fn bits(width: u64) -> FilterRequest {
    FilterRequest {
        fingerprint_bits: Some(width),
        ..FilterRequest::default()
    }
}

fn classic(bucket_size: u64) -> FilterRequest {
    FilterRequest {
        bucket_size: Some(bucket_size),
        ..FilterRequest::default()
    }
}

fn resolved(request: FilterRequest, capacity: u64) -> FilterParams {
    let request = FilterRequest {
        capacity: Some(capacity),
        ..request
    };
    FilterParams::resolve(&request, &Defaults::default()).unwrap()
}

/// The page with the table as it is now.
fn with_table(page: &str) -> String {
    let (before, rest) = page.split_once(BEGIN).expect("the page has the mark");
    let (_, after) = rest.split_once(END).expect("the page has the mark");
    format!("{before}{BEGIN}{}{END}{after}", table())
}

fn table() -> String {
    let mut table = String::from(
        "| requested | bits per slot | bytes per item | false positives, at capacity | false positives, grown |\n|---|---|---|---|---|\n",
    );
    let rates = [0.1, 0.03, 0.01, 0.001, 0.0001, 0.000_001, 0.000_000_02];
    let rows = rates
        .iter()
        .map(|&rate| (format!("`error_rate` {rate}"), asking(rate)))
        .chain([1, 2, 4, 8].map(|slots| (format!("`bucket_size` {slots}"), classic(slots))));
    for (name, request) in rows {
        let params = resolved(request, CAPACITY);
        let it: Forecast = forecast(&params).unwrap();
        let bytes = params.first_bytes() as f64 / CAPACITY as f64;
        let grown = it.stages.last().unwrap().false_positive_rate;
        table += &format!(
            "| {name} | {} | {bytes:.2} | {} | {} |\n",
            params.slot_width().bits(),
            one_in(it.rate_at_capacity),
            one_in(grown)
        );
    }
    table
}

/// A probability as one in so many, with three digits.
fn one_in(probability: f64) -> String {
    let times = 1.0 / probability;
    if times < 10.0 {
        return format!("1 in {times:.1}");
    }
    let unit = 10f64.powf((times.log10().floor() - 2.0).max(0.0));
    let digits = ((times / unit).round() * unit).to_string();
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    format!("1 in {grouped}")
}

/// Bytes an item and the error, from a tenth full to full.
fn course(empty: &Chain) -> Vec<(f64, f64)> {
    let bytes = empty.slot_bytes() as f64;
    let slots: u64 = empty.sub_filters().map(|sub| sub.layout.slots()).sum();
    let steps = (100..=1000)
        .step_by(10)
        .map(|step| (slots as f64 * f64::from(step) / 1000.0) as u64);
    steps
        .filter(|&items| items <= empty.adds_before_expansion())
        .map(|items| {
            let filled = empty.clone().with_occupied(&[items]).unwrap();
            (bytes / items as f64, filled.false_positive_rate())
        })
        .filter(|&(bytes, _)| bytes <= MOST_BYTES)
        .collect()
}

fn plot() -> String {
    // Colours that differ in brightness, too, for those who see no hue.
    let lines = [
        (
            "classic, 2 slots a bucket",
            classic(2),
            RGBColor(176, 112, 0),
        ),
        ("paged, 12 bits", bits(12), RGBColor(166, 38, 28)),
        ("paged, 16 bits", bits(16), RGBColor(29, 112, 118)),
        ("paged, 21 bits", bits(21), RGBColor(96, 120, 40)),
        ("paged, 32 bits", bits(32), RGBColor(46, 46, 90)),
    ];
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (760, 460)).into_drawing_area();
        area.fill(&WHITE).unwrap();
        let mut chart = ChartBuilder::on(&area)
            .margin(16)
            .x_label_area_size(44)
            .y_label_area_size(72)
            .build_cartesian_2d(0.0..MOST_BYTES, (1e-10..1.0).log_scale())
            .unwrap();
        chart
            .configure_mesh()
            .x_desc("bytes per item")
            .y_desc("false-positive rate")
            .x_labels(13)
            .y_labels(11)
            .x_label_formatter(&|bytes: &f64| format!("{bytes:.0}"))
            .y_label_formatter(&|rate: &f64| format!("1e{:.0}", rate.log10()))
            .light_line_style(WHITE.mix(0.0))
            .bold_line_style(RGBColor(226, 222, 213))
            .label_style(("sans-serif", 14))
            .draw()
            .unwrap();
        for (name, request, colour) in lines {
            let params = resolved(request, CAPACITY);
            let empty = Chain::new(params, HashKey([0; 16]), 0).unwrap();
            chart
                .draw_series(LineSeries::new(course(&empty), colour.stroke_width(3)))
                .unwrap()
                .label(name)
                .legend(move |(x, y)| {
                    PathElement::new([(x, y), (x + 22, y)], colour.stroke_width(3))
                });
        }
        legend(&mut chart, SeriesLabelPosition::UpperRight).unwrap();
        area.present().unwrap();
    }
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_table_and_plot_are_what_the_code_says() {
        let page = std::fs::read_to_string(page_path()).unwrap();
        assert_eq!(
            with_table(&page),
            page,
            "cargo run --release --example parameters"
        );
        let drawn = std::fs::read_to_string(plot_path()).unwrap();
        assert!(drawn == plot(), "cargo run --release --example parameters");
    }
}
