# What the groups' jobs found: activated where that helps, told by the nodes' names where it does not.
% file ops.json [{"OP_ID": "OP_GROUP_VERIFY_DISKS", "group_name": "default"}]
% result OP_GROUP_VERIFY_DISKS [{}, [], {}]
$ gnt-debug submit-job ops.json
Waiting for job 1001 for file ops.json/0 ...
> OP_GROUP_VERIFY_DISKS {"group_name":"default"}
% forget OP_GROUP_VERIFY_DISKS
% result OP_GROUP_VERIFY_DISKS [{}, ["web.example.org"], {}]
$ gnt-debug submit-job ops.json
Waiting for job 1002 for file ops.json/0 ...
> OP_GROUP_VERIFY_DISKS {"group_name":"default"}
% forget OP_GROUP_VERIFY_DISKS
% result OP_GROUP_VERIFY_DISKS [{"00000003-aaaa-4bbb-8ccc-000000000003": "lvm is broken"}, ["web.example.org"], {"web.example.org": [["00000003-aaaa-4bbb-8ccc-000000000003", "xenvg/disk0_data"], ["00000004-aaaa-4bbb-8ccc-000000000004", "xenvg/disk0_meta"]]}]
$ gnt-debug submit-job ops.json
Waiting for job 1003 for file ops.json/0 ...
> OP_GROUP_VERIFY_DISKS {"group_name":"default"}

% result OP_CLUSTER_VERIFY_DISKS {"jobs": [[true, 1001]]}
$ gnt-cluster verify-disks
Submitted jobs 1001
Waiting for job 1001 ...
No disks need to be activated.
> OP_CLUSTER_VERIFY_DISKS {}
% forget OP_CLUSTER_VERIFY_DISKS
% result OP_CLUSTER_VERIFY_DISKS {"jobs": [[true, 1002]]}
$ gnt-cluster verify-disks
Submitted jobs 1002
Waiting for job 1002 ...
Activating disks for instance 'web.example.org'
> OP_CLUSTER_VERIFY_DISKS {}
> OP_INSTANCE_ACTIVATE_DISKS {"instance_name":"web.example.org"}
% forget OP_CLUSTER_VERIFY_DISKS
% result OP_CLUSTER_VERIFY_DISKS {"jobs": [[true, 1003]]}
$ gnt-cluster verify-disks
Submitted jobs 1003
Waiting for job 1003 ...
Error gathering data on node node1.example.org: lvm is broken
Repair these nodes before the instances.
Instance web.example.org has missing logical volumes:
	broken node node1.example.org /dev/xenvg/disk0_data
	node2.example.org /dev/xenvg/disk0_meta
If volumes are still missing when all nodes work again, use 'gnt-instance replace-disks -a INSTANCE' (DRBD) or 'gnt-instance shutdown INSTANCE' and then 'gnt-instance recreate-disks INSTANCE' (empty disks) for each of these instances.
= 1
> OP_CLUSTER_VERIFY_DISKS {}
% forget OP_CLUSTER_VERIFY_DISKS
% result OP_CLUSTER_VERIFY_DISKS {"jobs": [[true, 1002]]}
% fail OP_INSTANCE_ACTIVATE_DISKS ["OpExecError", ["Cannot activate the disks"]]
$ gnt-cluster verify-disks
Submitted jobs 1002
Waiting for job 1002 ...
Activating disks for instance 'web.example.org'
! Error activating disks for instance web.example.org: Failure: command execution error:
! Cannot activate the disks
= 1
> OP_CLUSTER_VERIFY_DISKS {}
> OP_INSTANCE_ACTIVATE_DISKS {"instance_name":"web.example.org"}
% log OP_CLUSTER_REPAIR_DISK_SIZES  - INFO: Disk 0 of instance web.example.org has 10300 MiB, recorded were 10240: corrected
$ gnt-cluster repair-disk-sizes web
Tue Nov 14 22:13:21 2023  - INFO: Disk 0 of instance web.example.org has 10300 MiB, recorded were 10240: corrected
> OP_CLUSTER_REPAIR_DISK_SIZES {"instances":["web"]}

# A larger disk.
% log OP_INSTANCE_GROW_DISK Growing disk 0 of instance 'web.example.org' by 2048 MiB to 12288 MiB
$ gnt-instance grow-disk web 0 2g
Tue Nov 14 22:13:21 2023 Growing disk 0 of instance 'web.example.org' by 2048 MiB to 12288 MiB
> OP_INSTANCE_GROW_DISK {"amount":2048,"disk":0,"instance_name":"web"}
% forget OP_INSTANCE_GROW_DISK
$ gnt-instance grow-disk --absolute --no-wait-for-sync --ignore-ipolicy --submit web 1 20G
! JobID: 1012
> OP_INSTANCE_GROW_DISK {"absolute":true,"amount":20480,"disk":1,"ignore_ipolicy":true,"instance_name":"web","wait_for_sync":false}
$ gnt-instance grow-disk web one 2g
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! Invalid disk index passed: 'one' (expected a number from 0 to 15)
= 1
$ gnt-instance grow-disk web 99 2g
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! Invalid disk index passed: '99' (expected a number from 0 to 15)
= 1
$ gnt-instance grow-disk web 0 huge
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! Can't parse the given amount 'huge': 'huge' is not a valid size: write a number with m, g or t, such as 512m
= 1
$ gnt-instance grow-disk web 0
! Error: Command grow-disk expects 3 argument(s)
! Usage: gnt-instance grow-disk [options...] <instance> <disk> <size>
= 1

# Lost disks.
$ gnt-instance recreate-disks web
> OP_INSTANCE_RECREATE_DISKS {"instance_name":"web"}
$ gnt-instance recreate-disks --disk 0 --disk 2:size=3g,spindles=2 web
> OP_INSTANCE_RECREATE_DISKS {"disks":[[0,{}],[2,{"size":3072,"spindles":2}]],"instance_name":"web"}
$ gnt-instance recreate-disks -n node2:node1 web
> OP_INSTANCE_RECREATE_DISKS {"instance_name":"web","nodes":["node2","node1"]}
$ gnt-instance recreate-disks --disk one web
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! Invalid disk index passed: 'one' (expected a number from 0 to 15)
= 1
$ gnt-instance recreate-disks --disk no_0 web
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! Invalid disk/0 value: expected KEY=VALUE pairs
= 1
$ gnt-instance recreate-disks -I hail web
> OP_INSTANCE_RECREATE_DISKS {"iallocator":"hail","instance_name":"web"}
$ gnt-instance recreate-disks -n node2 -I hail web
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! An iallocator (-I) and nodes (-n) exclude each other
= 1
$ gnt-instance recreate-disks -n '' web
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! -n names no node; leave it out for the present ones
= 1

# Other storage for a mirror, or another node.
$ gnt-instance replace-disks -p web
> OP_INSTANCE_REPLACE_DISKS {"instance_name":"web","mode":"replace_on_primary"}
$ gnt-instance replace-disks --on-secondary --disks 0,2 --early-release web
> OP_INSTANCE_REPLACE_DISKS {"disks":[0,2],"early_release":true,"instance_name":"web","mode":"replace_on_secondary"}
$ gnt-instance replace-disks -a web
> OP_INSTANCE_REPLACE_DISKS {"instance_name":"web","mode":"replace_auto"}
$ gnt-instance replace-disks -n node3 --ignore-ipolicy web
> OP_INSTANCE_REPLACE_DISKS {"ignore_ipolicy":true,"instance_name":"web","mode":"replace_new_secondary","remote_node":"node3"}
$ gnt-instance replace-disks -I hail web
> OP_INSTANCE_REPLACE_DISKS {"iallocator":"hail","instance_name":"web","mode":"replace_new_secondary"}
$ gnt-instance replace-disks -n node3 -I hail web
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! Give exactly one of the options -p (new storage on the primary node), -s (on the secondary node), -a (for faulty disks on either node), -n NODE or -I ALLOCATOR (another secondary node)
= 1
$ gnt-instance replace-disks web
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! Give exactly one of the options -p (new storage on the primary node), -s (on the secondary node), -a (for faulty disks on either node), -n NODE or -I ALLOCATOR (another secondary node)
= 1
$ gnt-instance replace-disks -p -s web
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! Give exactly one of the options -p (new storage on the primary node), -s (on the secondary node), -a (for faulty disks on either node), -n NODE or -I ALLOCATOR (another secondary node)
= 1
$ gnt-instance replace-disks -a --disks 0 web
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! -a finds the faulty disks itself: --disks is not allowed
= 1
$ gnt-instance replace-disks -s --disks= web
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! --disks names no disk; leave it out for all of them
= 1
$ gnt-instance replace-disks -p --disks first web
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! Invalid disk index passed: 'first' (expected a number from 0 to 15)
= 1

# What only one node has is overwritten only by somebody who was asked, or said so.
$ gnt-instance activate-disks --behind=node1 web
! What only the copies on node node1 have is overwritten with what the
! primary node of web has. Continue?
! No terminal to ask on; assuming 'n'. With --force nothing is asked.
= 1
% forget OP_INSTANCE_ACTIVATE_DISKS
% result OP_INSTANCE_ACTIVATE_DISKS [["node1.example.org", "disk/0", "/dev/drbd0"]]
$ gnt-instance activate-disks --behind=node1 --force web
node1.example.org:disk/0:/dev/drbd0
> OP_INSTANCE_ACTIVATE_DISKS {"behind":"node1","instance_name":"web"}

# Copies that may be newer are given up only by somebody who was asked.
$ gnt-instance activate-disks --ignore-consistency web
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! --ignore-consistency needs --behind, which says whose copies are given up
= 1
$ gnt-instance activate-disks --behind=node1 --ignore-consistency --force web
! The copies on node node1 may have writes that those on the primary
! node of web do not have; with --ignore-consistency these are lost for
! good. Continue?
! No terminal to ask on; assuming 'n'.
= 1
% result OP_INSTANCE_ACTIVATE_DISKS [["node1.example.org", "disk/0", "/dev/drbd0"]]
% answers y
$ gnt-instance activate-disks --behind=node1 --ignore-consistency web
| The copies on node node1 may have writes that those on the primary
| node of web do not have; with --ignore-consistency these are lost for
| good. Continue?
| y/[n]/?:
node1.example.org:disk/0:/dev/drbd0
> OP_INSTANCE_ACTIVATE_DISKS {"behind":"node1","ignore_consistency":true,"instance_name":"web"}

# Names that do not exist.
$ gnt-instance grow
! gnt-instance: unknown command 'grow'
! Did you mean 'grow-disk'?
! 'gnt-instance --help' lists the commands.
= 1
$ gnt-instance groww-disk web 0 1g
! gnt-instance: unknown command 'groww-disk'
! Did you mean 'grow-disk'?
! 'gnt-instance --help' lists the commands.
= 1
$ gnt-instance evacuate
! gnt-instance: unknown command 'evacuate'
! 'gnt-instance --help' lists the commands.
= 1
$ gnt-instance -h
Usage: gnt-instance {command} [options...] [argument...]
gnt-instance <command> --help to see details, or man gnt-instance
.
Commands:
 activate-disks   - Open the disks of an instance on its nodes, and print their
                    paths
 add              - Create an instance
 add-tags         - Add tags to an instance
 batch-create     - Create the instances that a file describes, each in a job of
                    its own
 change-group     - Move an instance to another node group
 console          - Connect to the console of an instance
 deactivate-disks - Close the disks of a stopped instance on its nodes
 failover         - Stop an instance and start it on another node
 grow-disk        - Enlarge a disk of an instance
 info             - Show the state and the settings of instances
 list             - List instances
 list-fields      - List the fields that 'gnt-instance list' can show
 list-tags        - List the tags of an instance
 migrate          - Move a running instance to another node without stopping it
 modify           - Change parameters, disks and NICs of an instance
 move             - Stop an instance and move it to another node by copying its
                    disks
 reboot           - Restart instances
 recreate-disks   - Create the lost disks of a stopped instance again, empty
 reinstall        - Install the operating system again on stopped instances;
                    their data is lost
 remove           - Stop an instance, delete its disks, and remove it from the
                    cluster
 remove-tags      - Remove tags from an instance
 rename           - Rename a stopped instance
 replace-disks    - Replace the mirrored disks of a DRBD instance on one node,
                    or move the mirror to another node
 shutdown         - Stop instances
 startup          - Start instances
.
