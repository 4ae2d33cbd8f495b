"""What tests share: servers, stacks, drivers of runs, factories of rows. No test lives here."""
