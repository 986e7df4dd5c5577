# gnt-job: lists, one job, waiting, cancelling.

$ gnt-job list
ID Status Summary
$ gnt-job list 17
ID Status Summary
17 -      -
$ gnt-job list seventeen
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! Invalid job ID passed: 'seventeen'
= 1
% log OP_TEST_DELAY Hello
$ gnt-debug delay 1
Tue Nov 14 22:13:21 2023 Hello
> OP_TEST_DELAY {"duration":1.0,"no_locks":false}
% fail OP_CLUSTER_REDIST_CONF ["OpExecError", ["no way"]]
% file ops.json [{"OP_ID": "OP_TEST_DELAY", "duration": 1}, {"OP_ID": "OP_CLUSTER_REDIST_CONF"}]
$ gnt-debug submit-job ops.json
Waiting for job 1002 for file ops.json/0 ...
Tue Nov 14 22:13:21 2023 Hello
! Job 1002 for file ops.json/0 has failed: Failure: command execution error:
! no way
> OP_TEST_DELAY {"duration":1}
> OP_CLUSTER_REDIST_CONF {}

$ gnt-job list
  ID Status  Summary
1001 success TEST_DELAY(1000000000 ns)
1002 error   TEST_DELAY(1000000000 ns),CLUSTER_REDIST_CONF
$ gnt-job list 1001 1002 1003
  ID Status  Summary
1001 success TEST_DELAY(1000000000 ns)
1002 error   TEST_DELAY(1000000000 ns),CLUSTER_REDIST_CONF
1003 -       -
$ gnt-job list --error
  ID Status Summary
1002 error  TEST_DELAY(1000000000 ns),CLUSTER_REDIST_CONF
$ gnt-job list --running
ID Status Summary
$ gnt-job list --archived
  ID Status  Summary                                       Archived
1001 success TEST_DELAY(1000000000 ns)                     N
1002 error   TEST_DELAY(1000000000 ns),CLUSTER_REDIST_CONF N
$ gnt-job list -o +priority,opstart
  ID Status  Summary                                       Priority OpCode_start
1001 success TEST_DELAY(1000000000 ns)                            0 2023-11-14 22:30:01.000000
1002 error   TEST_DELAY(1000000000 ns),CLUSTER_REDIST_CONF        0 2023-11-14 22:30:02.000000,2023-11-14 22:30:02.000000
$ gnt-job list -o id,received_ts,ops --no-headers 1001
1001 [1700000000, 0] [{'OP_ID': 'OP_TEST_DELAY', 'dry_run': False, 'debug_level': 0, 'priority': 0, 'depends': None, 'comment': None, 'reason': [['gnt:client:gnt-debug', 'delay', NANOSECONDS]], 'duration': 1.0, 'on_master': True, 'on_nodes': [], 'repeat': 0, 'interruptible': False, 'no_locks': False}]
$ gnt-job list --separator=, -o id,opresult
ID,OpCode_result
1001,[None]
1002,[None, ['OpExecError', ['no way']]]
$ gnt-job list -o id,stauts 1002
  ID stauts
1002 ??
! Warning: Queried for unknown fields stauts
! stauts: Did you mean 'status' or 'start_ts' or 'opstatus'?
= 14
$ gnt-job list -o id,nonsense
  ID nonsense
1001 ??
1002 ??
! Warning: Queried for unknown fields nonsense
= 14
$ gnt-job list -v -o id,nonsense --no-headers
1001 (unknown)
1002 (unknown)
! Warning: Queried for unknown fields nonsense
= 14
$ gnt-job list -F 'id < 1002'
  ID Status  Summary
1001 success TEST_DELAY(1000000000 ns)
$ gnt-job list 'status == "error"'
  ID Status Summary
1002 error  TEST_DELAY(1000000000 ns),CLUSTER_REDIST_CONF
$ gnt-job list 'status =='
! Error while parsing query filter: Failed to parse query filter 'status ==': Expected end of text, found '='  (at char 7), (line:1, col:8)
! status ==
!        ^
! Expected end of text, found '='  (at char 7), (line:1, col:8)
! write a condition as FIELD == VALUE, with two equals signs, a text in double quotes, and the whole filter in single quotes for the shell, such as 'status == "running"'; --help explains all of it
= 1
$ gnt-job list -o json:id,status
[
  {
    "id": 1001,
    "status": "success"
  },
  {
    "id": 1002,
    "status": "error"
  }
]
$ gnt-job list-fields id status nonsense
Name     Type    Title    Description
id       Number  ID       Job ID
status   Text    Status   Job status
nonsense Unknown nonsense Unknown field 'nonsense'
! Warning: Queried for unknown fields nonsense
= 14
$ gnt-job list-fields --no-headers --separator=| id
id|Number|ID|Job ID

$ gnt-job wait 1001
$ gnt-job wait 1002
! Job 1002 failed: Failure: command execution error:
! no way
= 1
$ gnt-job wait 17
! Error checking job status: Can't load job file
= 1
$ gnt-job watch 1001
Output from job 1001 follows
----------------------------
Tue Nov 14 22:13:21 2023 Hello
$ gnt-job watch 1002
Output from job 1002 follows
----------------------------
Tue Nov 14 22:13:21 2023 Hello
! Job 1002 failed: Failure: command execution error:
! no way
= 1
$ gnt-job info 1001 17
- Job ID: 1001
  Status: success
  Received:         2023-11-14 22:13:20.000000
  Processing start: 2023-11-14 22:13:21.500000 (delta 1.500000s)
  Processing end:   2023-11-14 22:13:23.250000 (delta 1.750000s)
  Total processing time: 3.250000 seconds
  Opcodes: $
    - Opcode: OP_TEST_DELAY
      Status: success
      Processing start: 2023-11-14 22:30:01.000000
      Execution start:  2023-11-14 22:30:01.000000
      Processing end:   2023-11-14 22:30:01.000000
      Input fields: $
        OP_ID: OP_TEST_DELAY
        comment: None
        debug_level: 0
        depends: None
        dry_run: False
        duration: 1
        interruptible: False
        no_locks: False
        on_master: True
        on_nodes: $
        priority: 0
        reason: $
          - - gnt:client:gnt-debug
            - delay
            - NANOSECONDS
        repeat: 0
      Result: None
      Execution log: $
        - Time: 2023-11-14 22:13:21.000000
          Content: [1, message, Hello]
- Job ID 17 not found
$ gnt-job info --output=json 17
[
  {
    "id": 17
  }
]

$ gnt-job cancel
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! Either a status filter or job ID(s) must be specified and never both
= 1
$ gnt-job cancel --pending 17
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! Either a status filter or job ID(s) must be specified and never both
= 1
$ gnt-job cancel 1001 17
Job 1001 canceled
Job 17 not found
= 1
< ["CancelManyJobs",[1001,17],false]
$ gnt-job cancel --kill 1001
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! An aborted job can leave instances and disks in a half-changed state. Give --yes-do-it if you are sure
= 1
$ gnt-job cancel --kill --yes-do-it 1001
Job 1001 canceled
< ["CancelManyJobs",[1001],true]
$ gnt-job cancel --pending
! Failure: prerequisites not met for this operation:
! error type: wrong_state, error details:
! No jobs with the requested status have been found
= 1
$ gnt-job change-priority 1001
! --priority option must be given.
= 1
$ gnt-job change-priority --priority=low 1001
Priorities of pending opcodes for job 1001 have been changed to 10
< ["ChangeJobPriority",1001,10]
$ gnt-job autoarchive 6h
Archived 2 jobs, 0 unchecked left
< ["AutoArchiveJobs",21600]
$ gnt-job autoarchive all
Archived 2 jobs, 0 unchecked left
< ["AutoArchiveJobs",-1]
$ gnt-job autoarchive h
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! Invalid time specification 'h': only a suffix was passed
= 1
$ gnt-job archive 1001 17
! Failed to archive job with ID '17'
= 1
$ gnt-job archive x
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! Invalid job ID passed: 'x'
= 1
