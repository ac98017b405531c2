use super::*;
use crate::routes;
use std::collections::BTreeMap;

/// As the design has it: each route has its line here.
const SCOPES: &str = "
    GET /filters read
    PUT /filters/{key} write
    GET /filters/{key} read
    HEAD /filters/{key} read
    PATCH /filters/{key} admin
    DELETE /filters/{key} admin
    POST /filters/{key}/items write
    POST /filters/{key}/items/delete write
    POST /filters/{key}/merge write
    POST /filters/{key}/import write
    GET /filters/{key}/imports read
    GET /filters/{key}/imports/{id} read
    GET /filters/{key}/exists read
    POST /filters/{key}/exists read
    GET /filters/{key}/count read
    POST /filters/{key}/count read
    POST /filters/{key}/values write
    POST /filters/{key}/values/delete write
    GET /filters/{key}/values read
    POST /filters/{key}/values/query read
    POST /filters/{key}/values/replace write
    GET /filters/{key}/locate read
    POST /preview read
    POST /lookup read
    GET /filters/{key}/dump read+export
    PUT /filters/{key}/dump write
    POST /filters/{key}/compact admin
    GET /filters/{key}/compaction read
    GET /filters/{key}/history read
    POST /admin/backups admin
    GET /admin/backups admin
    GET /admin/backups/{id} admin
    GET /admin/backups/{id}/status admin
    GET /admin/clock admin
    POST /admin/clock/confirm admin
    GET /livez none
    GET /readyz none
    GET /caller read
    GET /cluster read
    GET /metrics read
    GET /openapi.json none
";

#[test]
fn every_operation_says_who_may_call_it() {
    let operations = routes::operations();
    let found = operations.all().map(|(method, path, it)| {
        let scope = it.scope.map_or("none", Scope::name);
        let export = if it.exports { "+export" } else { "" };
        (format!("{method} {path}"), format!("{scope}{export}"))
    });
    let expected = SCOPES
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty());
    let expected = expected.map(|line| {
        let (operation, scope) = line.rsplit_once(' ').unwrap();
        (operation.to_owned(), scope.to_owned())
    });
    assert_eq!(found.collect::<BTreeMap<_, _>>(), expected.collect());
}

#[test]
fn what_the_table_does_not_have_needs_the_highest_scope() {
    let operations = routes::operations();
    let scope = |path: &str, method| operations.find(path, &method).scope;
    assert_eq!(scope("/nobody/knows", Method::GET), Some(Scope::Admin));
    assert_eq!(scope("/filters", Method::HEAD), Some(Scope::Read));
    assert_eq!(scope("/filters", Method::DELETE), Some(Scope::Admin));
}
