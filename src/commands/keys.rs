//! `keys`: API keys are made, listed and removed.

use super::failure::Failure;
use crate::access::file;
use crate::config::KeysCommand;
use std::path::Path;
use std::time::SystemTime;

pub(super) fn run(path: &Path, command: KeysCommand) -> Result<(), Failure> {
    match command {
        KeysCommand::Add {
            name,
            scope,
            prefix,
        } => {
            let key = file::add(path, &name, scope, prefix, SystemTime::now())?;
            eprintln!(
                "{} has a key named {name}. This is the key; it is shown only now:",
                path.display()
            );
            println!("{}", key.as_str());
        }
        KeysCommand::List => {
            println!("{:<24} {:<6} {:<24} CREATED", "NAME", "SCOPE", "PREFIX");
            for key in file::read(path)? {
                let prefix = key
                    .prefix
                    .map_or_else(|| "-".to_owned(), |it| it.to_string());
                let created_at = key.created_at.unwrap_or_else(|| "-".to_owned());
                println!(
                    "{:<24} {:<6} {prefix:<24} {created_at}",
                    key.name.as_str(),
                    key.scope.name()
                );
            }
        }
        KeysCommand::Remove { name } => {
            file::remove(path, &name)?;
            println!("removed the key {name} from {}", path.display());
        }
    }
    Ok(())
}
