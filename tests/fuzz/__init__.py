"""A fuzzer of everything that the command line reads.

`make fuzz` runs it for any time, the tests for a second or two per format. Each format has a module
that makes cases: a command line and the files it names, most of them damaged. `program` runs a case
in this process, and `rule` decides whether the program behaved.
"""
