# Each target does all of its own set-up.
.PHONY: demo test check bench-switch clean

demo:            ## a cluster of three hosts on this machine, until Ctrl-C
	@scripts/demo

test: check      ## everything: style, types, import rules, all tests
	@scripts/test

check:           ## style, types, import rules
	@scripts/setup dev
	@scripts/check

bench-switch:    ## how long a switch takes, and its pause
	@scripts/setup dev
	@.venv/bin/python -m benchmarks.switch

clean:           ## forget what was built, and the demo's homes
	rm -rf .venv .links .demo build dist widgets/lab/dist widgets/lab/lib widgets/lab/node_modules
