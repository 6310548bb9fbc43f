//! A sensitive value can't be read, printed, copied or serialised: such programs don't compile.

#[test]
fn sensitive_values_stay_inside() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/compile_fail/*.rs");
}
