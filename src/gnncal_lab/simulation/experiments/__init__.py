"""The paper's theoretical statements as experiments: one file each, one frozen record each."""
