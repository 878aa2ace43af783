#[path="it/cli.rs"] mod cli;
#[path="it/real_input.rs"] mod real_input;
