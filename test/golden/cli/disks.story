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
You need to fix these nodes first before fixing instances
Instance web.example.org has missing logical volumes:
	broken node node1.example.org /dev/xenvg/disk0_data
	node2.example.org /dev/xenvg/disk0_meta
You need to replace or recreate disks for all the above instances if this message persists after fixing broken nodes.
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
