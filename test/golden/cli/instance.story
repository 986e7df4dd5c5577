# gnt-instance

$ gnt-instance list
Instance        Hypervisor OS             Primary_node      Status  Memory
web.example.org kvm        debian+minimal node1.example.org running   512M
$ gnt-instance list -o name,disk.sizes,nic.macs,snodes,tags,be/maxmem,ctime --separator=|
Instance|Disk_sizes|NIC_MACs|Secondary_Nodes|Tags|ConfigMaxMem|CTime
web.example.org|10240|aa:00:00:3f:12:c4|node2.example.org|prod|512|2023-11-14 22:13:20
$ gnt-instance list -o +network_port,hv/acpi web
Instance        Hypervisor OS             Primary_node      Status  Memory Network_port ACPI
web.example.org kvm        debian+minimal node1.example.org running   512M 11000        N
$ gnt-instance list nobody
! Failure: prerequisites not met for this operation:
! error type: unknown_entity, error details:
! Instance name nobody not found
= 1
$ gnt-instance list -o json:name,status
[
  {
    "name": "web.example.org",
    "status": "running"
  }
]
$ gnt-instance list-fields name oper_ram
Name     Type         Title    Description
name     Text         Instance Instance name
oper_ram Storage size Memory   Memory as the hypervisor reports it

# Which instances are meant.
$ gnt-instance startup web
Waiting for job 1001 for web.example.org ...
> OP_INSTANCE_STARTUP {"instance_name":"web.example.org"}
$ gnt-instance startup web.example.org
Waiting for job 1002 for web.example.org ...
> OP_INSTANCE_STARTUP {"instance_name":"web.example.org"}
$ gnt-instance startup nobody
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! Selection filter does not match any instances: nothing found for 'nobody'
= 1
$ gnt-instance startup
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! No instance names passed
= 1
$ gnt-instance startup --all web
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! --all takes no names
= 1
$ gnt-instance startup --all
! The startup will operate on 1 instance.
! Do you want to continue?
! Affected instance:
!   web.example.org
! No terminal to ask on; assuming 'n'. With --force-multiple nothing is asked.
= 1
$ gnt-instance startup --force-multiple --all
Submitted jobs 1003
Waiting for job 1003 for web.example.org ...
> OP_INSTANCE_STARTUP {"instance_name":"web.example.org"}
$ gnt-instance startup --force-multiple --primary node1.example.org
Submitted jobs 1004
Waiting for job 1004 for web.example.org ...
> OP_INSTANCE_STARTUP {"instance_name":"web.example.org"}
$ gnt-instance shutdown --force-multiple --secondary node1.example.org
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! Selection filter does not match any instances: nothing found for 'node1.example.org'
= 1
$ gnt-instance shutdown --force-multiple --tags prod
Submitted jobs 1005
Waiting for job 1005 for web.example.org ...
> OP_INSTANCE_SHUTDOWN {"instance_name":"web.example.org"}
$ gnt-instance shutdown --submit web.example.org
1006: web.example.org
> OP_INSTANCE_SHUTDOWN {"instance_name":"web.example.org"}
$ gnt-instance stop --timeout=5 --no-remember web.example.org
Waiting for job 1007 for web.example.org ...
> OP_INSTANCE_SHUTDOWN {"instance_name":"web.example.org","no_remember":true,"timeout":5}
$ gnt-instance start -H acpi=false -B maxmem=1g --paused web.example.org
Waiting for job 1008 for web.example.org ...
> OP_INSTANCE_STARTUP {"beparams":{"maxmem":"1g"},"hvparams":{"acpi":"false"},"instance_name":"web.example.org","startup_paused":true}
$ gnt-instance reboot -t full web.example.org
Waiting for job 1009 for web.example.org ...
> OP_INSTANCE_REBOOT {"instance_name":"web.example.org","reboot_type":"full"}
$ gnt-instance reboot -t kick web.example.org
! Usage
! =====
!   gnt-instance reboot [options...] [instance...]
!
! gnt-instance: error: option -t: invalid choice: 'kick' (choose from 'full', 'hard', 'soft')
= 2
% answers n
$ gnt-instance shutdown --all
| The shutdown will operate on 1 instance.
| Do you want to continue?
| Affected instance:
|   web.example.org
| y/[n]/?:
= 1
% answers y
$ gnt-instance shutdown --all
| The shutdown will operate on 1 instance.
| Do you want to continue?
| Affected instance:
|   web.example.org
| y/[n]/?:
Submitted jobs 1010
Waiting for job 1010 for web.example.org ...
> OP_INSTANCE_SHUTDOWN {"instance_name":"web.example.org"}
% fail OP_INSTANCE_STARTUP ["OpPrereqError", ["no memory", "insufficient_resources"]]
$ gnt-instance startup web.example.org
Waiting for job 1011 for web.example.org ...
! Job 1011 for web.example.org has failed: Failure: prerequisites not met for this operation:
! error type: insufficient_resources, error details:
! no memory
= 1
> OP_INSTANCE_STARTUP {"instance_name":"web.example.org"}
% forget OP_INSTANCE_STARTUP

$ gnt-instance add -t plain --disk 0:size=1g -o debian+minimal -n node1 new
> OP_INSTANCE_CREATE {"disk_template":"plain","disks":[{"size":1024}],"instance_name":"new","mode":"create","nics":[{}],"no_install":false,"os_type":"debian+minimal","pnode":"node1"}
$ gnt-instance add -t drbd -s 2g -o debian -B memory=512m,vcpus=2 -H kvm:acpi=false -n node1:node2 --net 0:ip=pool,network=lan --tags a,b --submit new
! JobID: 1013
> OP_INSTANCE_CREATE {"beparams":{"memory":512,"vcpus":2},"disk_template":"drbd","disks":[{"size":2048}],"hvparams":{"acpi":false},"hypervisor":"kvm","instance_name":"new","mode":"create","nics":[{"ip":"pool","network":"lan"}],"no_install":false,"os_type":"debian","pnode":"node1","snode":"node2","tags":["a","b"]}
$ gnt-instance add -t diskless --no-nics -o debian -I hail --no-start new
> OP_INSTANCE_CREATE {"disk_template":"diskless","disks":[],"iallocator":"hail","instance_name":"new","mode":"create","nics":[],"no_install":false,"os_type":"debian","start":false}
$ gnt-instance add -t plain -o debian -n node1 new
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! No disk information specified
= 1
$ gnt-instance add -t plain --disk 0:mode=rw -o debian -n node1 new
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! Missing size or adoption source for disk 0
! give its size: --disk 0:size=20g
= 1
$ gnt-instance add -t plain --disk 0:size=1g,adopt=lv -o debian -n node1 new
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! Only one of 'size' and 'adopt' allowed (disk 0)
= 1
$ gnt-instance add -t plain --disk x:size=1g -o debian -n node1 new
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! Invalid disk index passed: 'x' (expected a number from 0 to 15)
= 1
$ gnt-instance add -t plain --disk 0:size=huge -o debian -n node1 new
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! Invalid size for disk 0: 'huge' is not a valid size: write a number with m, g or t, such as 512m
= 1
$ gnt-instance add -t plain --disk 0:size=1g,mode=xx -o debian -n node1 new
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! Invalid mode for disk 0: 'xx' (expected ro or rw)
= 1
$ gnt-instance add -t file --disk 0:siz=1g -o debian -n node1 new
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! Missing size or adoption source for disk 0
! Unknown key 'siz'. Did you mean 'size'?
= 1
$ gnt-instance modify -H kvm_flga=enabled web
! Parameter Error: Unknown hypervisor parameter 'kvm_flga'
! Did you mean 'kvm_flag' or 'kvm_path'?
= 1
$ gnt-instance add -t diskless --disk 0:size=1g -o debian -n node1 new
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! Diskless instance but disk information passed
= 1
$ gnt-instance add -t plain -s 1g --disk 0:size=1g -o debian -n node1 new
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! Please use either the '--disk' or '-s' option
= 1
$ gnt-instance add -t plain -s 1g -o debian -n node1 --no-ip-check new
! Warning: --no-ip-check: this is the default now, the option has no effect
> OP_INSTANCE_CREATE {"disk_template":"plain","disks":[{"size":1024}],"instance_name":"new","mode":"create","nics":[{}],"no_install":false,"os_type":"debian","pnode":"node1"}
$ gnt-instance add -t floppy -o debian new
! Usage
! =====
!   gnt-instance add [options...] <host>
!
! gnt-instance: error: option -t: invalid choice: 'floppy' (choose from 'blockdev', 'diskless', 'drbd', 'ext', 'file', 'gluster', 'plain', 'rbd', 'sharedfile')
= 2

$ gnt-instance remove web
! Instance web will be stopped and removed, and its disks will be
! deleted. The data cannot be restored. Continue?
! No terminal to ask on; assuming 'n'. With --force nothing is asked.
= 1
$ gnt-instance remove -f web
> OP_INSTANCE_REMOVE {"instance_name":"web"}
$ gnt-instance rename --name-check web other
> OP_INSTANCE_RENAME {"instance_name":"web","name_check":true,"new_name":"other"}
$ gnt-instance failover web
! Instance web will be stopped and started again on another node.
! Continue?
! No terminal to ask on; assuming 'n'. With --force nothing is asked.
= 1
$ gnt-instance failover -f web
> OP_INSTANCE_FAILOVER {"instance_name":"web"}
$ gnt-instance add -n node1 -I hail -t diskless --no-nics -o debian new
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! Give either an iallocator (-I) or nodes (-n), not both
= 1
$ gnt-instance add -I . --opportunistic-locking --dry-run -t diskless --no-nics -o debian new
> OP_INSTANCE_CREATE {"disk_template":"diskless","disks":[],"dry_run":true,"iallocator":".","instance_name":"new","mode":"create","nics":[],"no_install":false,"opportunistic_locking":true,"os_type":"debian"}
$ gnt-instance failover -f -I hail web
> OP_INSTANCE_FAILOVER {"iallocator":"hail","instance_name":"web"}
$ gnt-instance migrate -f -I . web
> OP_INSTANCE_MIGRATE {"iallocator":".","instance_name":"web"}
$ gnt-instance modify -t drbd -I hail web
> OP_INSTANCE_SET_PARAMS {"disk_template":"drbd","iallocator":"hail","instance_name":"web"}
$ gnt-instance failover -f -n node2 -I hail web
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! An iallocator (-I) and a target node (-n) exclude each other
= 1
$ gnt-instance migrate -f --non-live --migration-mode=live web
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! --non-live and --migration-mode exclude each other
= 1
$ gnt-instance migrate -f --cleanup web
> OP_INSTANCE_MIGRATE {"cleanup":true,"instance_name":"web"}
$ gnt-instance reinstall -f -o debian web.example.org
Waiting for job 1024 for web.example.org ...
> OP_INSTANCE_REINSTALL {"instance_name":"web.example.org","os_type":"debian"}
% result OP_INSTANCE_ACTIVATE_DISKS [["node1.example.org", "disk/0", "/dev/drbd0"]]
$ gnt-instance activate-disks web
node1.example.org:disk/0:/dev/drbd0
> OP_INSTANCE_ACTIVATE_DISKS {"instance_name":"web"}
$ gnt-instance deactivate-disks web
> OP_INSTANCE_DEACTIVATE_DISKS {"instance_name":"web"}

$ gnt-instance modify web
! Please give at least one of the parameters.
= 1
% result OP_INSTANCE_SET_PARAMS [["be/maxmem", 1024], ["hv/acpi", "default"]]
$ gnt-instance modify -B maxmem=1g -H acpi=default web
Modified instance web
 - be/maxmem -> 1024
 - hv/acpi -> default
Changes that are not hot-plugged take effect at the instance's next start by the cluster; a reboot from inside the guest is not enough.
Do not migrate a running instance before that: the other node would use the new hypervisor parameters, and the guest may crash.
> OP_INSTANCE_SET_PARAMS {"beparams":{"maxmem":1024},"hvparams":{"acpi":"default"},"instance_name":"web"}
$ gnt-instance modify --disk add:size=1g --disk 0:remove --disk 1:mode=ro web
Modified instance web
 - be/maxmem -> 1024
 - hv/acpi -> default
Changes that are not hot-plugged take effect at the instance's next start by the cluster; a reboot from inside the guest is not enough.
> OP_INSTANCE_SET_PARAMS {"disks":[["add",-1,{"size":1024}],["remove",0,{}],["modify",1,{"mode":"ro"}]],"instance_name":"web"}
$ gnt-instance modify --disk 1:mode=xx web
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! Invalid mode for disk 1: 'xx' (expected ro or rw)
= 1
$ gnt-instance modify --net 0:add,remove web
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! Give only one of the words add, attach, modify, remove, detach for one device
= 1
$ gnt-instance modify --net 0:remove,ip=x web
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! Not accepting parameters on removal/detach
= 1
$ gnt-instance modify -f --net add:ip=192.0.2.9 web
Modified instance web
 - be/maxmem -> 1024
 - hv/acpi -> default
Changes that are not hot-plugged take effect at the instance's next start by the cluster; a reboot from inside the guest is not enough.
> OP_INSTANCE_SET_PARAMS {"force":true,"instance_name":"web","nics":[["add",-1,{"ip":"192.0.2.9"}]]}
$ gnt-instance modify --net add:ip=192.0.2.9 web
Modified instance web
 - be/maxmem -> 1024
 - hv/acpi -> default
Changes that are not hot-plugged take effect at the instance's next start by the cluster; a reboot from inside the guest is not enough.
> OP_INSTANCE_SET_PARAMS {"instance_name":"web","nics":[["add",-1,{"ip":"192.0.2.9"}]]}
% forget OP_INSTANCE_SET_PARAMS
% result OP_INSTANCE_SET_PARAMS [["nic.1", "add:mac=aa:00:00:1:2:3,ip=None,mode=bridged,link=br0,network=None"], ["nic.1", "hotplug:done"]]
$ gnt-instance modify --net add:link=br0 web
Modified instance web
 - nic.1 -> add:mac=aa:00:00:1:2:3,ip=None,mode=bridged,link=br0,network=None
 - nic.1 -> hotplug:done
> OP_INSTANCE_SET_PARAMS {"instance_name":"web","nics":[["add",-1,{"link":"br0"}]]}
% forget OP_INSTANCE_SET_PARAMS
% result OP_INSTANCE_SET_PARAMS [["disk/1", "add:size=1024,mode=rw"], ["disk/1", "hotplug:failed"]]
$ gnt-instance modify --disk add:size=1g web
Modified instance web
 - disk/1 -> add:size=1024,mode=rw
 - disk/1 -> hotplug:failed
Changes that are not hot-plugged take effect at the instance's next start by the cluster; a reboot from inside the guest is not enough.
> OP_INSTANCE_SET_PARAMS {"disks":[["add",-1,{"size":1024}]],"instance_name":"web"}
% forget OP_INSTANCE_SET_PARAMS
% result OP_INSTANCE_SET_PARAMS [["NIC/1", "remove"]]
$ gnt-instance modify --no-hotplug --net -1:remove web
Modified instance web
 - NIC/1 -> remove
Changes that are not hot-plugged take effect at the instance's next start by the cluster; a reboot from inside the guest is not enough.
> OP_INSTANCE_SET_PARAMS {"hotplug":false,"instance_name":"web","nics":[["remove",-1,{}]]}
% forget OP_INSTANCE_SET_PARAMS
$ gnt-instance modify -t ext web
! A conversion to ext needs the provider of the disks: --ext-params provider=NAME
= 1
% result OP_INSTANCE_SET_PARAMS [["admin_state", "offline"]]
$ gnt-instance modify --online --offline web
Modified instance web
 - admin_state -> offline
> OP_INSTANCE_SET_PARAMS {"instance_name":"web","offline":true}
% forget OP_INSTANCE_SET_PARAMS
% result OP_INSTANCE_SET_PARAMS [["runtime_memory", 256]]
$ gnt-instance modify -m 256 web
Modified instance web
 - runtime_memory -> 256
The guest was asked to change its memory; it does so only if it has a balloon driver. 'gnt-instance list' shows the memory that it uses.
> OP_INSTANCE_SET_PARAMS {"instance_name":"web","runtime_mem":256}
$ gnt-instance info
! Give the names of instances, or --all for all instances.
= 1
$ gnt-instance info --all web
! Give either names of instances or --all, not both.
= 1
$ gnt-instance add-tags web x
> OP_TAGS_SET {"kind":"instance","name":"web","tags":["x"]}
$ gnt-instance list-tags web.example.org
prod

# Another group
% result OP_INSTANCE_CHANGE_GROUP {"jobs": [[true, 1001]]}
$ gnt-instance change-group --to second -I hail --early-release web
Submitted jobs 1001
Waiting for job 1001 ...
Instance 'web' changed group successfully.
> OP_INSTANCE_CHANGE_GROUP {"early_release":true,"iallocator":"hail","instance_name":"web","target_groups":["second"]}
% forget OP_INSTANCE_CHANGE_GROUP
% result OP_INSTANCE_CHANGE_GROUP {"jobs": [[false, "queue is full"]]}
$ gnt-instance change-group web
There were 1 errors while changing group of instance 'web'.
! Failed to submit job: queue is full
= 1
> OP_INSTANCE_CHANGE_GROUP {"instance_name":"web"}

# Many at once
$ gnt-instance batch-create missing.json
! Can't read the instance definition file missing.json: No such file or directory
= 1
% file bad.json {
$ gnt-instance batch-create bad.json
! Can't parse the instance definition file bad.json: not valid JSON: Expecting property name enclosed in double quotes or '}': line 1 column 2 (char 1)
= 1
% file object.json {}
$ gnt-instance batch-create object.json
! The instance definition file object.json is not a list of objects
= 1
% file empty.json []
$ gnt-instance batch-create empty.json
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! empty.json defines no instances
= 1
% file unknown.json [{"instance_name": "new1", "size": 3, "name": "x"}]
$ gnt-instance batch-create unknown.json
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! Unknown fields in definition 0 (new1): name, size
= 1
% file wrong.json [{"instance_name": "new1"}, {"instance_name": 7}]
$ gnt-instance batch-create wrong.json
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! Definition 1: OP_INSTANCE_CREATE: parameter 'instance_name': expected a text, got 7
= 1
% file two.json [{"instance_name": "new1", "os_type": "noop", "disk_template": "plain", "disks": [{"size": "1g"}]}, {"instance_name": "new2", "os_type": "noop", "disk_template": "diskless", "nics": [], "beparams": {"maxmem": 512}}]
% result OP_INSTANCE_MULTI_ALLOC {"jobs": [[true, 1001], [true, 1002]], "allocatable": ["new1", "new2"], "failed": []}
$ gnt-instance batch-create -I hail two.json
Submitted jobs 1001, 1002
Waiting for job 1001 ...
Waiting for job 1002 ...
All instances created successfully.
> OP_INSTANCE_MULTI_ALLOC {"iallocator":"hail","instances":[{"OP_ID":"OP_INSTANCE_CREATE","mode":"create","disks":[{"size":"1g"}],"nics":[{}],"instance_name":"new1","os_type":"noop","disk_template":"plain"},{"OP_ID":"OP_INSTANCE_CREATE","mode":"create","disks":[],"nics":[],"instance_name":"new2","os_type":"noop","disk_template":"diskless","beparams":{"maxmem":512}}]}
$ gnt-instance batch-create --submit two.json
! JobID: 1040
> OP_INSTANCE_MULTI_ALLOC {"instances":[{"OP_ID":"OP_INSTANCE_CREATE","mode":"create","disks":[{"size":"1g"}],"nics":[{}],"instance_name":"new1","os_type":"noop","disk_template":"plain"},{"OP_ID":"OP_INSTANCE_CREATE","mode":"create","disks":[],"nics":[],"instance_name":"new2","os_type":"noop","disk_template":"diskless","beparams":{"maxmem":512}}]}
% forget OP_INSTANCE_MULTI_ALLOC
% result OP_INSTANCE_MULTI_ALLOC {"jobs": [[true, 1001]], "allocatable": ["new1"], "failed": ["new2"]}
$ gnt-instance batch-create two.json
No place was found for: new2
Submitted jobs 1001
Waiting for job 1001 ...
There were 1 errors during the creation.
= 1
> OP_INSTANCE_MULTI_ALLOC {"instances":[{"OP_ID":"OP_INSTANCE_CREATE","mode":"create","disks":[{"size":"1g"}],"nics":[{}],"instance_name":"new1","os_type":"noop","disk_template":"plain"},{"OP_ID":"OP_INSTANCE_CREATE","mode":"create","disks":[],"nics":[],"instance_name":"new2","os_type":"noop","disk_template":"diskless","beparams":{"maxmem":512}}]}
% forget OP_INSTANCE_MULTI_ALLOC
% result OP_INSTANCE_MULTI_ALLOC {"jobs": [], "allocatable": ["new1", "new2"], "failed": []}
$ gnt-instance batch-create --dry-run two.json
2 of 2 instances would be created.
> OP_INSTANCE_MULTI_ALLOC {"dry_run":true,"instances":[{"OP_ID":"OP_INSTANCE_CREATE","mode":"create","disks":[{"size":"1g"}],"nics":[{}],"instance_name":"new1","os_type":"noop","disk_template":"plain"},{"OP_ID":"OP_INSTANCE_CREATE","mode":"create","disks":[],"nics":[],"instance_name":"new2","os_type":"noop","disk_template":"diskless","beparams":{"maxmem":512}}]}

# Reservations
$ gnt-instance add --forthcoming -t plain -s 1g -o debian+minimal -n node1 reserved1
> OP_INSTANCE_CREATE {"disk_template":"plain","disks":[{"size":1024}],"forthcoming":true,"instance_name":"reserved1","mode":"create","nics":[{}],"no_install":false,"os_type":"debian+minimal","pnode":"node1"}
$ gnt-instance add --commit reserved1
> OP_INSTANCE_CREATE {"commit":true,"disks":[],"instance_name":"reserved1","mode":"create","nics":[],"no_install":false}
$ gnt-instance add --commit --disk 0:size=1g --net 0:link=br0 -B maxmem=1g reserved1
> OP_INSTANCE_CREATE {"beparams":{"maxmem":1024},"commit":true,"disks":[{"size":1024}],"instance_name":"reserved1","mode":"create","nics":[{"link":"br0"}],"no_install":false}
$ gnt-instance add --commit --no-nics reserved1
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! --no-nics cannot be used with --commit: NICs are as reserved
= 1
$ gnt-instance add --commit --forthcoming -t plain -s 1g reserved1
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! --forthcoming and --commit exclude each other
= 1
$ gnt-instance add -t plain -o mini --disk 0:size=1g -H kernel_path=/x inst9
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! -H kernel_path=/x: the name of the hypervisor is missing
! write it before the parameters, such as '-H kvm:kernel_path=/x'
= 1
$ gnt-instance modify --disk add web
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! Missing required parameter 'size'
! write it as in '--disk add:size=10g'
= 1
$ gnt-instance modify -c no web
Modified instance web
 - runtime_memory -> 256
> OP_INSTANCE_SET_PARAMS {"instance_communication":false,"instance_name":"web"}
% forget OP_INSTANCE_MULTI_ALLOC
% result OP_INSTANCE_MULTI_ALLOC {"jobs": [[true, 1001], [false, "queue is full"]], "allocatable": ["new1", "new2"], "failed": []}
$ gnt-instance batch-create two.json
Submitted jobs 1001
Waiting for job 1001 ...
Not created: new2
There were 1 errors during the creation.
! Failed to submit job: queue is full
= 1
> OP_INSTANCE_MULTI_ALLOC {"instances":[{"OP_ID":"OP_INSTANCE_CREATE","mode":"create","disks":[{"size":"1g"}],"nics":[{}],"instance_name":"new1","os_type":"noop","disk_template":"plain"},{"OP_ID":"OP_INSTANCE_CREATE","mode":"create","disks":[],"nics":[],"instance_name":"new2","os_type":"noop","disk_template":"diskless","beparams":{"maxmem":512}}]}

# Disks that only one node has
$ gnt-instance move web
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! Target node must be specified
! name it with -n NODE
= 1
$ gnt-instance move -n node2 web
! Instance web will be stopped while its disks are copied to node node2.
! The old disks will be deleted afterwards. Continue?
! No terminal to ask on; assuming 'n'. With --force nothing is asked.
= 1
% answers n
$ gnt-instance move -n node2 web
| Instance web will be stopped while its disks are copied to node node2.
| The old disks will be deleted afterwards. Continue?
| y/[n]/?:
= 1
% answers y
$ gnt-instance move --node=node2 web
| Instance web will be stopped while its disks are copied to node node2.
| The old disks will be deleted afterwards. Continue?
| y/[n]/?:
> OP_INSTANCE_MOVE {"instance_name":"web","target_node":"node2"}
% log OP_INSTANCE_MOVE Disk 0: 50%
$ gnt-instance move -f -n node2 --compress=gzip --shutdown-timeout=5 --ignore-consistency --ignore-ipolicy web
Tue Nov 14 22:13:21 2023 Disk 0: 50%
> OP_INSTANCE_MOVE {"compress":"gzip","ignore_consistency":true,"ignore_ipolicy":true,"instance_name":"web","shutdown_timeout":5,"target_node":"node2"}
$ gnt-instance move --force --submit --print-jobid --dry-run --priority=low -n node2 web
1050
! JobID: 1050
> OP_INSTANCE_MOVE {"dry_run":true,"instance_name":"web","priority":10,"target_node":"node2"}
% fail OP_INSTANCE_MOVE ["OpPrereqError", ["Instance web.example.org has disks on two nodes", "wrong_input"]]
$ gnt-instance move -f -n node2 web
Tue Nov 14 22:13:21 2023 Disk 0: 50%
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! Instance web.example.org has disks on two nodes
= 1
> OP_INSTANCE_MOVE {"instance_name":"web","target_node":"node2"}
$ gnt-instance move -f -n node2 -I hail web
! Usage
! =====
!   gnt-instance move [options...] <instance>
!
! gnt-instance: error: no such option: -I
= 2
