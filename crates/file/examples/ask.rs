//! Asks a file about items: `cargo run --example ask -- FILE ITEM…`, or about the lines
//! of the standard input.

use cuckood_file::FilterFile;
use std::error::Error;
use std::io::BufRead as _;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("which file?")?;
    let file = FilterFile::open(path)?;
    let mut items: Vec<String> = arguments.collect();
    if items.is_empty() {
        items = std::io::stdin().lock().lines().collect::<Result<_, _>>()?;
    }
    let found = file.exists_all(items.iter().map(|it| it.as_bytes()))?;
    for (item, found) in items.iter().zip(found) {
        println!("{item}\t{found}");
    }
    Ok(())
}
