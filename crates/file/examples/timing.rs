//! How many milliseconds a file takes to open, and nanoseconds to ask again about each of
//! 100,000 items, one by one and all at once: `cargo run --release --example timing -- FILE`.

use cuckood_file::FilterFile;
use std::time::{Duration, Instant};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("which file?")?;
    let began = Instant::now();
    let file = FilterFile::open(path)?;
    let opened = began.elapsed().as_secs_f64() * 1e3;
    let items: Vec<String> = (0..100_000).map(|it| format!("SUMMER-{it}")).collect();
    let each = || items.iter().map(String::as_bytes);
    file.exists_all(each())?;
    let began = Instant::now();
    for item in each() {
        std::hint::black_box(file.exists(item)?);
    }
    let one_by_one = began.elapsed();
    file.exists_all(each())?;
    let at_once = began.elapsed() - one_by_one;
    let nanos = |took: Duration| took.as_secs_f64() * 1e9 / items.len() as f64;
    println!("{opened} {} {}", nanos(one_by_one), nanos(at_once));
    Ok(())
}
