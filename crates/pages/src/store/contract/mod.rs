//! The tests that a store passes, over either store of bytes.
//! [`contract_tests`] turns them into tests of one store.
//!
//! | file | what it owns |
//! |---|---|
//! | `subject.rs` | a store under test, and what the tests do with it |
//! | `expiry.rs` | what ends by itself: filters and side records |
//! | `filters.rs` | filters by name, by number and in lists |
//! | `history.rs` | log and pages against two maps |
//! | `log.rs` | commits and the redo log |
//! | `memory.rs` | the store in memory passes, and what else tests rely on of it |
//! | `pages.rs` | page images, and snapshots of them |
//! | `reclaim.rs` | pages that can't be reached any more, and what undoes that |

mod expiry;
mod filters;
mod history;
mod log;
mod pages;
mod reclaim;
mod subject;

pub(super) use expiry::*;
pub(super) use filters::*;
pub(super) use history::*;
pub(super) use log::*;
pub(super) use pages::*;
pub(super) use reclaim::*;
pub(super) use subject::Subject;

/// Makes a test of each test of the suite; `$open` makes an empty store.
macro_rules! contract_tests {
    ($open:expr) => {
        $crate::store::contract::contract_tests!(@each $open;
            a_commit_is_there_as_a_whole_after_a_restart,
            a_lanes_position_is_that_of_its_last_commit,
            the_past_of_a_lane_is_known_by_numbers_and_by_records,
            a_record_under_the_same_sequence_is_replaced,
            an_empty_record_removes_the_one_that_is_there,
            records_are_replayed_in_the_order_of_their_sequences,
            replaying_twice_gives_the_same_bytes,
            an_error_of_the_visitor_ends_the_replay,
            a_checkpoint_truncates_the_log_below_its_mark_only,
            truncating_an_empty_log_is_nothing,
            a_record_committed_below_the_last_mark_is_truncated_by_the_next_one,
            pages_are_read_in_order_and_missing_ones_are_none,
            more_pages_than_fit_one_batch_are_read_in_order,
            the_last_image_of_a_page_counts,
            a_page_larger_than_allowed_is_refused_and_nothing_is_kept,
            a_filter_is_found_by_name_and_by_number,
            an_update_keeps_name_and_number,
            changes_of_one_commit_are_applied_in_order,
            a_name_is_free_after_removal_and_never_shows_old_pages,
            dropped_sub_filters_are_reclaimed_alone,
            many_pages_are_reclaimed_like_few,
            restore_undoes_a_removal,
            restore_undoes_an_update_that_dropped_sub_filters,
            restore_leaves_other_garbage,
            a_staged_filter_is_reclaimed_unless_it_is_named,
            what_a_commit_has_staged_stays_until_it_is_named_or_given_up,
            a_view_stays_as_it_was_while_writes_go_on,
            a_view_shows_the_pages_of_a_sub_filter_in_order,
            a_repeated_commit_changes_nothing,
            what_ends_is_listed_by_time_up_to_the_moment_asked_for,
            an_end_moves_and_goes_with_all_its_traces,
            a_side_record_comes_and_goes_with_its_commit,
            a_damaged_side_record_is_an_error,
            filter_numbers_are_never_handed_out_twice,
            numbers_that_do_not_exist_are_not_handed_out,
            filters_are_listed_by_prefix_and_page,
            a_damaged_page_is_an_error_that_names_it,
            a_damaged_record_is_an_error_that_names_it,
            a_damaged_filter_is_an_error_that_names_it,
            the_estimate_grows_with_the_pages,
            any_history_reads_like_a_map,
        );
    };
    (@each $open:expr; $($test:ident,)*) => {
        mod suite {
            use super::*;
            $(#[test] fn $test() { contract::$test(&mut || $open); })*
        }
    };
}
pub(super) use contract_tests;

mod memory;
