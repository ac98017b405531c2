//! `keys`: API keys are made, listed and removed.

use super::failure::Result;
use crate::access::file;
use crate::config::KeysCommand;
use std::path::Path;
use std::time::SystemTime;

pub(super) fn run(path: &Path, command: KeysCommand) -> Result {
    match command {
        KeysCommand::Add(options) => {
            let now = SystemTime::now();
            let new = options.new_key(now)?;
            let name = new.name.clone();
            let key = file::add(path, new, now)?;
            let path = path.display();
            eprintln!("{path} has a key named {name}. This is the key; it is shown only now:");
            println!("{}", key.as_str());
        }
        KeysCommand::List => {
            line([
                "NAME",
                "SCOPE",
                "PREFIX",
                "CREATED",
                "EXPIRES",
                "DESCRIPTION",
            ]);
            for key in file::read(path)? {
                let export = if key.export { "+export" } else { "" };
                line([
                    key.name.as_str(),
                    &format!("{}{export}", key.scope),
                    &or_dash(key.prefix),
                    &or_dash(key.created_at),
                    &or_dash(key.expires_at),
                    &or_dash(key.description),
                ]);
            }
        }
        KeysCommand::Remove { name } => {
            file::remove(path, &name)?;
            println!("removed the key {name} from {}", path.display());
        }
    }
    Ok(())
}

fn line([name, scope, prefix, created, expires, description]: [&str; 6]) {
    println!("{name:<24} {scope:<12} {prefix:<24} {created:<20} {expires:<20} {description}");
}

fn or_dash(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".to_owned(), |it| it.to_string())
}
