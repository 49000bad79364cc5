"""Does an encoding keep its promises? What it declares is measured, and what it offers must work.

Each check takes a `Subject` and raises `Broken` with a sentence for the encoding's author: what was
promised, what was measured, and where to look. The test suite runs every check on every encoding;
`python -m posbench.check` runs them on your own.
"""

from __future__ import annotations

from posbench.check import contract, declarations, paths, settings, weights
from posbench.check.subject import Subject
from posbench.check.suite import Suite

SUITE = Suite(
    Subject,
    first=(
        contract.calls_return_what_attention_takes,
        contract.outputs_are_finite,
        contract.two_calls_are_equal,
    ),
    others=(
        declarations.max_positions_is_measured,
        contract.inputs_are_left_alone,
        contract.training_and_test_are_the_same,
        contract.mixed_precision_runs,
        contract.no_tensor_is_made_on_another_device,
        paths.fused_path_equals_the_dense_reference,
        paths.fused_path_stays_within_tolerance_at_8x,
        paths.any_block_size_gives_the_same,
        contract.no_output_depends_on_a_later_token,
        contract.a_prefix_gives_alone_what_it_gives_within_the_whole,
        contract.positions_are_taken_as_they_come,
        declarations.counts_tokens_is_measured,
        declarations.relative_is_measured,
        declarations.float_positions_are_accepted_iff_declared,
        contract.finite_under_decreasing_positions,
        declarations.handles_are_measured,
        weights.every_parameter_gets_a_gradient,
        weights.state_dict_round_trips,
        weights.shared_modules_start_equal_across_encodings,
        weights.two_constructions_are_equal,
        settings.every_numeric_setting_changes_an_output,
        settings.every_setting_of_the_model_changes_an_output,
    ),
    rests_on={
        contract.a_prefix_gives_alone_what_it_gives_within_the_whole: (
            contract.no_output_depends_on_a_later_token,
        ),
        contract.positions_are_taken_as_they_come: (
            contract.inputs_are_left_alone,
            contract.a_prefix_gives_alone_what_it_gives_within_the_whole,
        ),
        declarations.relative_is_measured: (contract.positions_are_taken_as_they_come,),
        declarations.float_positions_are_accepted_iff_declared: (
            contract.positions_are_taken_as_they_come,
        ),
    },
)
