# gnt-backup

$ gnt-backup list
Node              Export
node1.example.org web.example.org
node2.example.org web.example.org
$ gnt-backup list --node=node2
Node              Export
node2.example.org web.example.org
$ gnt-backup list -n node2.example.org -n node1 --no-headers --separator=: -o +node
node2.example.org:web.example.org:node2.example.org
node1.example.org:web.example.org:node1.example.org
$ gnt-backup list -n node9
! Failure: prerequisites not met for this operation:
! error type: unknown_entity, error details:
! Node name node9 not found
= 1
$ gnt-backup list -o json -n node1
[
  {
    "node": "node1.example.org",
    "export": "web.example.org"
  }
]
$ gnt-backup list --units=m -v -o export
Export
web.example.org
web.example.org
$ gnt-backup list node1
! Error: Command list expects no arguments
! Usage: gnt-backup list [options...]
= 1
% change nodes 00000004-aaaa-4bbb-8ccc-000000000004 {"offline": true}
$ gnt-backup list
Node              Export
node1.example.org web.example.org
node2.example.org *
$ gnt-backup list-fields
Name   Type Title  Description
export Text Export Export name
node   Text Node   Node name
$ gnt-backup list-fields --no-headers --separator=: export size
export:Text:Export:Export name
size:Unknown:size:Unknown field 'size'
! Warning: Queried for unknown fields size
= 14
$ gnt-backup list-fields --output=json node
[
  {
    "name": "node",
    "title": "Node",
    "kind": "text",
    "doc": "Node name"
  }
]

$ gnt-backup export web
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! Target node must be specified
! name it with -n NODE
= 1
$ gnt-backup export -n '' web
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! Target node must be specified
! name it with -n NODE
= 1
% log OP_BACKUP_EXPORT  - INFO: Snapshot of disk 0
% result OP_BACKUP_EXPORT [true, [true]]
$ gnt-backup export -n node2 web
Tue Nov 14 22:13:21 2023  - INFO: Snapshot of disk 0
> OP_BACKUP_EXPORT {"instance_name":"web","target_node":"node2"}
$ gnt-backup export --submit --print-jobid --priority=high --dry-run --force --node=node2 --transport-compression=gzip-fast --shutdown-timeout=30 --remove-instance --ignore-remove-failures --zero-free-space --zeroing-timeout-fixed=600 --zeroing-timeout-per-mib=0.5 --long-sleep web
1002
! JobID: 1002
> OP_BACKUP_EXPORT {"compress":"gzip-fast","dry_run":true,"ignore_remove_failures":true,"instance_name":"web","long_sleep":true,"priority":-10,"remove_instance":true,"shutdown_timeout":30,"target_node":"node2","zero_free_space":true,"zeroing_timeout_fixed":600,"zeroing_timeout_per_mib":0.5}
$ gnt-backup export --noshutdown -n node2 web
Tue Nov 14 22:13:21 2023  - INFO: Snapshot of disk 0
> OP_BACKUP_EXPORT {"instance_name":"web","shutdown":false,"target_node":"node2"}
$ gnt-backup export -n node2 --zeroing-timeout-per-mib=fast web
! Usage
! =====
!   gnt-backup export [options...] <instance>
!
! gnt-backup: error: option --zeroing-timeout-per-mib: invalid floating-point value: 'fast'
= 2
$ gnt-backup export -n node2
! Error: Command export expects 1 argument(s)
! Usage: gnt-backup export [options...] <instance>
= 1
% fail OP_BACKUP_EXPORT ["OpExecError", ["Instance web.example.org has disks without snapshots"]]
$ gnt-backup export --reason=rehearsal -n node2 web
Tue Nov 14 22:13:21 2023  - INFO: Snapshot of disk 0
! Failure: command execution error:
! Instance web.example.org has disks without snapshots
= 1
> OP_BACKUP_EXPORT {"instance_name":"web","target_node":"node2"}

# What is not given comes from the export: nothing is sent of it.
$ gnt-backup import -n node1 new
> OP_INSTANCE_CREATE {"disks":[],"instance_name":"new","mode":"import","nics":[],"pnode":"node1","start":false}
$ gnt-backup import -I hail new
> OP_INSTANCE_CREATE {"disks":[],"iallocator":"hail","instance_name":"new","mode":"import","nics":[],"start":false}
$ gnt-backup import -n node1:node2 --src-node=node2 --src-dir=old.example.org -t drbd --disk 0:size=1g --disk 1:size=2g --net 0:mac=generate --identify-defaults --compress=gzip new
> OP_INSTANCE_CREATE {"compress":"gzip","disk_template":"drbd","disks":[{"size":1024},{"size":2048}],"identify_defaults":true,"instance_name":"new","mode":"import","nics":[{"mac":"generate"}],"pnode":"node1","snode":"node2","src_node":"node2","src_path":"old.example.org","start":false}
$ gnt-backup import --submit --print-jobid --priority=high --dry-run -B memory=512m -H kvm:acpi=false -s 1g -O a=1 --os-parameters-private=b=2 --os-parameters-secret=c=3 --file-storage-dir=sub --file-driver=loop --ip-check --name-check --no-conflicts-check --no-wait-for-sync --ignore-ipolicy -g default --tags a,b --opportunistic-locking --helper-startup-timeout=5 --helper-shutdown-timeout=6 --no-ip-check --no-name-check new
1008
! Warning: --no-ip-check: this is the default now, the option has no effect
! Warning: --no-name-check: this is the default now, the option has no effect
! JobID: 1008
> OP_INSTANCE_CREATE {"beparams":{"memory":512},"conflicts_check":false,"disks":[{"size":1024}],"dry_run":true,"file_driver":"loop","file_storage_dir":"sub","group_name":"default","helper_shutdown_timeout":6,"helper_startup_timeout":5,"hvparams":{"acpi":false},"hypervisor":"kvm","ignore_ipolicy":true,"instance_name":"new","ip_check":true,"mode":"import","name_check":true,"nics":[],"opportunistic_locking":true,"osparams":{"a":"1"},"osparams_private":{"b":"2"},"osparams_secret":{"c":"3"},"priority":-10,"start":false,"tags":["a","b"],"wait_for_sync":false}
$ gnt-backup import -t diskless -n node1 new
> OP_INSTANCE_CREATE {"disk_template":"diskless","disks":[],"instance_name":"new","mode":"import","nics":[],"pnode":"node1","start":false}
$ gnt-backup import -t diskless --disk 0:size=1g -n node1 new
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! Diskless instance but disk information passed
= 1
$ gnt-backup import -n node1 --disk 0:adopt=volume new
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! --disk 0:adopt=volume: an import writes to new disks and cannot adopt any
! give the size of the new disk: --disk 0:size=20g
= 1
$ gnt-backup import -n node1 --disk 0:mode=ro new
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! Missing size or adoption source for disk 0
! give its size: --disk 0:size=20g
= 1
$ gnt-backup import -n node1 --no-nics new
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! --no-nics cannot be used for an import: without --net the NICs are those of the export
= 1
$ gnt-backup import -n node1 -I hail new
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! Give either an iallocator (-I) or nodes (-n), not both
= 1
$ gnt-backup import -n node1 -o debian new
! Usage
! =====
!   gnt-backup import [options...] <instance>
!
! gnt-backup: error: no such option: -o
= 2
$ gnt-backup import -n node1 --no-start new
! Usage
! =====
!   gnt-backup import [options...] <instance>
!
! gnt-backup: error: no such option: --no-start
= 2
$ gnt-backup import -n node1
! Error: Command import expects 1 argument(s)
! Usage: gnt-backup import [options...] <instance>
= 1

$ gnt-backup remove web
> OP_BACKUP_REMOVE {"instance_name":"web"}
$ gnt-backup remove --submit --print-jobid --priority=low --dry-run gone.example.org
1011
! JobID: 1011
> OP_BACKUP_REMOVE {"dry_run":true,"instance_name":"gone.example.org","priority":10}
$ gnt-backup remove
! Error: Command remove expects 1 argument(s)
! Usage: gnt-backup remove [options...] <instance>
= 1
