"""The thirty tests of reliability: what is broken on purpose, and which tests do it. `make test-reliability` runs them and prints a line each.

Names are ends of pytest's own (file::test); "unit:NAME FILTER" is a filter of the unit tests build/NAME_test."""

TITLES = {
    1: "saved, reloaded and run again: bit-equal", 2: "resumed in another layout", 3: "killed at every point of a save", 4: "truncated, flipped and damaged checkpoints",
    5: "no space at the n-th write", 6: "files that cannot grow", 7: "an output folder that cannot be written", 8: "another run's checkpoints in the folder",
    9: "retention that cannot delete", 10: "SIGTERM to one rank, and a second signal", 11: "SIGTERM while a save is under way", 12: "a rank that stands still",
    13: "a rank that is killed; a mistake is not retried", 14: "a slow rank is named", 15: "NaN and Inf on one rank", 16: "a loss spike", 17: "broken rows",
    18: "checkpoints of earlier versions", 19: "out of memory", 20: "bursts, and bodies that still arrive", 21: "clients that leave", 22: "a client that does not read",
    23: "SIGTERM with streams", 24: "a step that throws, a model of NaN", 25: "a step that does not come back", 26: "every route without a key",
    27: "every field outside its bounds", 28: "addresses that must not be asked", 29: "hostile files and text", 30: "raw primitives in their own files",
}

TESTS = {
    1: ["test_resume.py::test_continued_equals_uninterrupted", "test_preference.py::test_a_resumed_run_is_bit_identical",
        "test_rewards.py::test_a_reward_model_follows_trl_in_every_layout_and_resumes_bit_for_bit", "test_grpo.py::test_a_resumed_run_is_the_uninterrupted_one"],
    2: ["test_resharding.py::test_resumes_in_another_layout"],
    3: ["test_resume.py::test_killed_while_saving_leaves_the_newest_whole", "test_resume.py::test_killed_in_retention", "unit:train EveryPoint*"],
    4: ["test_damage.py::test_a_requested_checkpoint_that_is_damaged_is_refused", "unit:train Checkpoint.Damage*:Checkpoint.AManifest*"],
    5: ["test_damage.py::test_a_full_disk_costs_one_save_not_the_run", "unit:train Checkpoint.FullDisk*"],
    6: ["test_damage.py::test_a_last_step_that_cannot_be_saved_is_a_failure"],
    7: ["test_damage.py::test_output_folder_that_is_a_file_fails_before_the_model_loads", "unit:train OutputFolder.*"],
    8: ["test_damage.py::test_retention_never_touches_another_runs_folder", "unit:train Checkpoint.AnotherRuns*:Resume.*"],
    9: ["unit:train Checkpoint.Retention*"],
    10: ["test_failures.py::test_a_signal_to_one_rank_makes_all_save_the_same_step", "test_resume.py::test_second_signal_leaves_at_once"],
    11: ["test_async_save.py::test_stopping_during_a_save", "test_failures.py::test_a_stop_during_a_save_leaves_one_newest_checkpoint"],
    12: ["test_failures.py::test_a_stopped_rank_is_named"],
    13: ["test_failures.py::test_a_killed_rank_is_restarted_from_its_checkpoint", "test_failures.py::test_a_mistake_is_not_tried_again"],
    14: ["test_failures.py::test_a_slow_rank_is_named"],
    15: ["test_failures.py::test_nan_on_one_rank_is_everyones", "test_damage.py::test_skipped_steps_are_counted_and_named"],
    16: ["test_failures.py::test_a_spike_is_named_with_its_rows_and_passed_over_by_all"],
    17: ["test_preview.py::test_every_bad_row_is_counted_and_the_first_are_named", "test_preview.py::test_rows_of_a_bad_day", "unit:data Hostile*"],
    19: ["test_batches_and_moments.py::test_a_batch_that_does_not_fit_is_halved", "test_npu_failures.py::test_out_of_memory"],
    20: ["test_server_failures.py::test_a_burst_is_turned_away_beyond_the_queue"],
    21: ["test_server_failures.py::test_clients_that_leave_free_what_they_held", "test_http.py::test_a_client_that_closes_frees_its_blocks"],
    22: ["test_server_failures.py::test_a_client_that_does_not_read_is_cut_alone"],
    23: ["test_server_failures.py::test_sigterm_finishes_streams_and_refuses_new_ones", "test_server_failures.py::test_streams_beyond_the_deadline_end_with_an_event"],
    24: ["test_server_failures.py::test_a_failed_step_costs_its_requests_and_nothing_else", "test_inner_faults.py::test_an_engine_that_does_not_recover_ends_the_server"],
    25: ["test_server_failures.py::test_a_stuck_step_is_noticed"],
    26: ["test_access.py::test_without_a_key_only_health_answers"],
    27: ["test_access.py::test_every_field_outside_its_bounds_is_refused", "test_access.py::test_random_json_never_breaks_it"],
    28: ["test_reward_servers.py::test_other_machines_are_contacted_only_with_permission", "test_refusals.py::test_redirects_lead_to_http_alone"],
    29: ["test_hostile.py::test_damaged_tokenizer_json", "test_refusals.py::test_names_that_would_leave_the_folder", "unit:io *HostileFile*", "unit:text JinjaLimits*"],
    30: ["test_raw_primitives.py::"],
}


def numbers_of(nodeid):
    """Which of the thirty a pytest test belongs to, by this table."""
    plain = nodeid.split("[")[0]
    return [number for number, names in TESTS.items() if any(not name.startswith("unit:") and name in plain for name in names)]


def unit_filters():
    """[(number, program, filter)]"""
    return [(number, *name[5:].split(" ", 1)) for number, names in TESTS.items() for name in names if name.startswith("unit:")]
