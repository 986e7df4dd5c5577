# gnt-debug: opcodes by hand, locks.

$ gnt-debug delay 1.5
> OP_TEST_DELAY {"duration":1.5,"no_locks":false}
$ gnt-debug delay -n node1.example.org -n node2.example.org --no-master --repeat=2 0.1
> OP_TEST_DELAY {"duration":0.1,"no_locks":false,"on_master":false,"on_nodes":["node1.example.org","node2.example.org"],"repeat":2}
$ gnt-debug delay --submit 1
! JobID: 1003
> OP_TEST_DELAY {"duration":1.0,"no_locks":false}
$ gnt-debug delay --submit --print-jobid 1
1004
! JobID: 1004
> OP_TEST_DELAY {"duration":1.0,"no_locks":false}
$ gnt-debug delay --print-jobid --priority=high --dry-run 1
1005
> OP_TEST_DELAY {"dry_run":true,"duration":1.0,"no_locks":false,"priority":-10}
$ gnt-debug delay --priority=urgent 1
! Usage
! =====
!   gnt-debug delay [options...] <duration>
!
! gnt-debug: error: option --priority: invalid choice: 'urgent' (choose from 'high', 'low', 'normal')
= 2
$ gnt-debug delay soon
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! Invalid duration 'soon'
= 1
$ gnt-debug delay
! Error: Command delay expects 1 argument(s)
! Usage: gnt-debug delay [options...] <duration>
= 1

# What the job says is shown with its time; control characters do not reach the terminal.
% log OP_TEST_DELAY Test delay iteration 0/1
% log OP_TEST_DELAY \x1b[31mred\ttab\u00e9
$ gnt-debug delay -r 1 1
Tue Nov 14 22:13:21 2023 Test delay iteration 0/1
Tue Nov 14 22:13:22 2023 \x1b[31mred\ttab\xe9
> OP_TEST_DELAY {"duration":1.0,"no_locks":false,"repeat":1}

# Errors keep their class, their kind and their exit code.
% fail OP_TEST_DELAY ["OpPrereqError", ["Node 'x' not known", "unknown_entity"]]
$ gnt-debug delay 1
Tue Nov 14 22:13:21 2023 Test delay iteration 0/1
Tue Nov 14 22:13:22 2023 \x1b[31mred\ttab\xe9
! Failure: prerequisites not met for this operation:
! error type: unknown_entity, error details:
! Node 'x' not known
= 1
> OP_TEST_DELAY {"duration":1.0,"no_locks":false}
% fail OP_TEST_DELAY ["OpExecError", ["it broke"]]
$ gnt-debug delay 1
Tue Nov 14 22:13:21 2023 Test delay iteration 0/1
Tue Nov 14 22:13:22 2023 \x1b[31mred\ttab\xe9
! Failure: command execution error:
! it broke
= 1
> OP_TEST_DELAY {"duration":1.0,"no_locks":false}
% fail OP_TEST_DELAY ["HooksAbort", [[["node1", "10-check", "disk full"], ["node2", "20-more", ""]]]]
$ gnt-debug delay 1
Tue Nov 14 22:13:21 2023 Test delay iteration 0/1
Tue Nov 14 22:13:22 2023 \x1b[31mred\ttab\xe9
! Failure: hooks execution failed:
!   node: node1, script: 10-check, output: disk full
!   node: node2, script: 20-more (no output)
= 1
> OP_TEST_DELAY {"duration":1.0,"no_locks":false}
% status OP_TEST_DELAY canceled
$ gnt-debug delay 1
Tue Nov 14 22:13:21 2023 Test delay iteration 0/1
Tue Nov 14 22:13:22 2023 \x1b[31mred\ttab\xe9
! Failure: Job was canceled
= 1
> OP_TEST_DELAY {"duration":1.0,"no_locks":false}
% forget OP_TEST_DELAY

$ gnt-debug locks
Name                     Mode      Owner           Pending
cluster/BGL              shared    job1001         -
instance/web.example.org exclusive job1001,job1002 exclusive:job1003,job1004
node/node1.example.org   -         -               -
$ gnt-debug locks --no-headers --separator=: -o name,owner
cluster/BGL:job1001
instance/web.example.org:job1001,job1002
node/node1.example.org:-
$ gnt-debug locks -o json
[
  {
    "name": "cluster/BGL",
    "mode": "shared",
    "owner": [
      "job1001"
    ],
    "pending": []
  },
  {
    "name": "instance/web.example.org",
    "mode": "exclusive",
    "owner": [
      "job1001",
      "job1002"
    ],
    "pending": [
      [
        "exclusive",
        [
          "job1003",
          "job1004"
        ]
      ]
    ]
  },
  {
    "name": "node/node1.example.org",
    "mode": null,
    "owner": null,
    "pending": []
  }
]

% file ops.json [{"OP_ID": "OP_TEST_DELAY", "duration": 0.5}, {"OP_ID": "OP_TEST_JQUEUE"}]
$ gnt-debug submit-job ops.json
Waiting for job 1011 for file ops.json/0 ...
> OP_TEST_DELAY {"duration":0.5}
> OP_TEST_JQUEUE {}
$ gnt-debug submit-job -v --op-repeat=2 --job-repeat=2 ops.json
Submitted jobs 1012, 1013
Waiting for job 1012 for file ops.json/0 ...
Waiting for job 1013 for file ops.json/1 ...
> OP_TEST_DELAY {"duration":0.5}
> OP_TEST_JQUEUE {}
> OP_TEST_DELAY {"duration":0.5}
> OP_TEST_JQUEUE {}
> OP_TEST_DELAY {"duration":0.5}
> OP_TEST_JQUEUE {}
> OP_TEST_DELAY {"duration":0.5}
> OP_TEST_JQUEUE {}
$ gnt-debug submit-job --each ops.json
Waiting for job 1014 for file ops.json/0 ...
> OP_TEST_DELAY {"duration":0.5}
> OP_TEST_JQUEUE {}
% file broken.json {"OP_ID":
$ gnt-debug submit-job broken.json
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! 'broken.json': not valid JSON: Expecting value: line 1 column 10 (char 9)
= 1
% file unknown.json [{"OP_ID": "OP_NO_SUCH"}]
$ gnt-debug submit-job unknown.json
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! 'unknown.json': Unknown opcode 'OP_NO_SUCH' in OP_ID
= 1
$ gnt-debug submit-job missing.json
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! Cannot read 'missing.json': No such file or directory
= 1

$ gnt-debug wconfd echo hello
Answer: hello
$ gnt-debug wconfd listalllocks
Answer: ['cluster/BGL', 'instance/web.example.org']
$ gnt-debug wconfd dance
! Command 'dance' not supported
= 1

% result OP_TEST_ALLOCATOR "{\"version\":2}"
$ gnt-debug iallocator web
{"version":2}
> OP_TEST_ALLOCATOR {"count":2,"direction":"in","disks":[{"size":4096,"mode":"rw"},{"size":4096,"mode":"rw"}],"evac_mode":"all","instances":["web"],"memory":128,"mode":"relocate","name":"web","nics":[{"mac":"00:11:22:33:44:55"}],"vcpus":1}
$ gnt-debug allocator --dir=out -m multi-allocate -t drbd --disks=1g,512 --tags a,b --nics 00:11:22:33:44:56//br1 --count=3 -o noop new.example.org
{"version":2}
> OP_TEST_ALLOCATOR {"count":3,"direction":"out","disk_template":"drbd","disks":[{"size":1024,"mode":"rw"},{"size":512,"mode":"rw"}],"evac_mode":"all","instances":["new.example.org"],"memory":128,"mode":"multi-allocate","name":"new.example.org","nics":[{"mac":"00:11:22:33:44:56","bridge":"br1"}],"os":"noop","tags":["a","b"],"vcpus":1}
$ gnt-debug iallocator -m change-group --target-groups one --target-groups two web mail
{"version":2}
> OP_TEST_ALLOCATOR {"count":2,"direction":"in","disks":[{"size":4096,"mode":"rw"},{"size":4096,"mode":"rw"}],"evac_mode":"all","instances":["web","mail"],"memory":128,"mode":"change-group","name":"web","nics":[{"mac":"00:11:22:33:44:55"}],"target_groups":["one","two"],"vcpus":1}
$ gnt-debug iallocator -m allocate --disks=huge new
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! Invalid disks 'huge': 'huge' is not a valid size: write a number with m, g or t, such as 512m
= 1
$ gnt-debug iallocator -m allocate --nics=a/b/c/d new
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! 'a/b/c/d' is not MAC/IP/BRIDGE
= 1
$ gnt-debug iallocator -m nothing new
! Usage
! =====
!   gnt-debug iallocator [options...] <instance...>
!
! gnt-debug: error: option -m: invalid choice: 'nothing' (choose from 'allocate', 'allocate-secondary', 'balance', 'capacity', 'change-group', 'multi-allocate', 'node-evacuate', 'relocate')
= 2

# Secrets go to the job, never to a screen.
$ gnt-debug test-osparams --os-parameters-secret=password=sesame
> OP_TEST_OS_PARAMS {"osparams_secret":{"password":"sesame"}}
$ gnt-debug test-osparams --submit --print-jobid
1019
! JobID: 1019
> OP_TEST_OS_PARAMS {}
