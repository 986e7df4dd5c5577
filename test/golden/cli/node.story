# gnt-node

$ gnt-node list
Node              DTotal DFree MTotal MNode MFree Pinst Sinst
node1.example.org 100.0G 50.0G  16.0G  700M 11.7G     1     0
node2.example.org 100.0G 50.0G  16.0G  700M 11.7G     0     1
$ gnt-node list --no-headers --separator=| -o name,mfree,role
node1.example.org|12000|M
node2.example.org|12000|C
$ gnt-node list --units=g -o name,mfree,dtotal node1
Node              MFree DTotal
node1.example.org  11.7  100.0
$ gnt-node list -o +tags,pinst_list 'node*'
Node              DTotal DFree MTotal MNode MFree Pinst Sinst Tags PriInstances
node1.example.org 100.0G 50.0G  16.0G  700M 11.7G     1     0      web.example.org
node2.example.org 100.0G 50.0G  16.0G  700M 11.7G     0     1      $
$ gnt-node list node9
! Failure: prerequisites not met for this operation:
! error type: unknown_entity, error details:
! Node name node9 not found
= 1
$ gnt-node list -F 'not offline and mfree > 1'
Node              DTotal DFree MTotal MNode MFree Pinst Sinst
node1.example.org 100.0G 50.0G  16.0G  700M 11.7G     1     0
node2.example.org 100.0G 50.0G  16.0G  700M 11.7G     0     1
$ gnt-node list -F a b
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! Exactly one argument must be given as a filter
= 1
$ gnt-node list -F 'role'
! Failure: unknown/wrong parameter name 'Field 'role' of kind text is not a yes-or-no field'
= 1
% environment GNT_NODE_LIST=--no-headers -o name
$ gnt-node list
node1.example.org
node2.example.org
$ gnt-node list -o role
M
C
% environment GNT_NODE_LIST=
$ gnt-node list-fields name mfree
Name  Type         Title Description
name  Text         Node  Node name
mfree Storage size MFree Memory available for instances
% change nodes 00000004-aaaa-4bbb-8ccc-000000000004 {"offline": true, "master_candidate": false}
$ gnt-node list -o name,mfree,role
Node              MFree Role
node1.example.org 11.7G M
node2.example.org     * O
$ gnt-node list -v -o name,mfree,role
Node                  MFree Role
node1.example.org     11.7G M
node2.example.org (offline) O
$ gnt-node list -o json:name,mfree node2.example.org
[
  {
    "name": "node2.example.org",
    "mfree": null,
    "_status": {
      "mfree": "offline"
    }
  }
]
$ gnt-node info
- Node name: node1.example.org
  primary ip: 192.0.2.11
  secondary ip: 198.51.100.11
  master candidate: True
  drained: False
  offline: False
  master_capable: True
  vm_capable: True
  primary for instances: $
    - web.example.org
  secondary for instances: $
  node parameters: $
    cpu_speed: default (1)
    exclusive_storage: default (False)
    oob_program: default ()
    ovs: default (False)
    ovs_link: default ()
    ovs_name: default (switch1)
    spindle_count: default (1)
    ssh_port: default (22)
- Node name: node2.example.org
  primary ip: 192.0.2.12
  secondary ip: 198.51.100.12
  master candidate: False
  drained: False
  offline: True
  master_capable: True
  vm_capable: True
  primary for instances: $
  secondary for instances: $
    - web.example.org
  node parameters: $
    cpu_speed: default (1)
    exclusive_storage: default (False)
    oob_program: default ()
    ovs: default (False)
    ovs_link: default ()
    ovs_name: default (switch1)
    spindle_count: default (1)
    ssh_port: default (22)
$ gnt-node info node2.example.org
- Node name: node2.example.org
  primary ip: 192.0.2.12
  secondary ip: 198.51.100.12
  master candidate: False
  drained: False
  offline: True
  master_capable: True
  vm_capable: True
  primary for instances: $
  secondary for instances: $
    - web.example.org
  node parameters: $
    cpu_speed: default (1)
    exclusive_storage: default (False)
    oob_program: default ()
    ovs: default (False)
    ovs_link: default ()
    ovs_name: default (switch1)
    spindle_count: default (1)
    ssh_port: default (22)
% change nodes 00000004-aaaa-4bbb-8ccc-000000000004 {"hv_state_static": {"kvm": {"mem_node": 1024}}, "disk_state_static": {"plain": {"xenvg": {"disk_total": 1000}}}}
$ gnt-node info node2.example.org
- Node name: node2.example.org
  primary ip: 192.0.2.12
  secondary ip: 198.51.100.12
  master candidate: False
  drained: False
  offline: True
  master_capable: True
  vm_capable: True
  primary for instances: $
  secondary for instances: $
    - web.example.org
  node parameters: $
    cpu_speed: default (1)
    exclusive_storage: default (False)
    oob_program: default ()
    ovs: default (False)
    ovs_link: default ()
    ovs_name: default (switch1)
    spindle_count: default (1)
    ssh_port: default (22)
  recorded memory and CPUs: $
    kvm: $
      mem_node: 1024
  recorded disk space: $
    plain: $
      xenvg: $
        disk_total: 1000
% change nodes 00000004-aaaa-4bbb-8ccc-000000000004 {"hv_state_static": {}, "disk_state_static": {}}
$ gnt-node info nobody
.
! Warning: node 'nobody' does not exist and is left out

$ gnt-node modify node1
! Please give at least one of the parameters.
= 1
$ gnt-node modify --node-powered=yes node1
! Please give at least one of the parameters.
= 1
% result OP_NODE_SET_PARAMS [["drained", true], ["master_candidate", false]]
$ gnt-node modify --drained=yes --auto-promote node1
Modified node node1
 - drained -> True
 - master_candidate -> False
> OP_NODE_SET_PARAMS {"auto_promote":true,"drained":true,"node_name":"node1"}
$ gnt-node modify -O no node2
! Node node2 will be marked online as it is. Instances that were failed
! over may still run on it. If its disk was replaced or restored, or it
! was installed anew, use 'gnt-node add --readd node2' instead.
! Continue?
! No terminal to ask on; assuming 'n'. With --force nothing is asked.
= 1
$ gnt-node modify -f -O no node2
Modified node node2
 - drained -> True
 - master_candidate -> False
> OP_NODE_SET_PARAMS {"force":true,"node_name":"node2","offline":false}
$ gnt-node modify --node-parameters=oob_program=/bin/oob,spindle_count=default node1
Modified node node1
 - drained -> True
 - master_candidate -> False
> OP_NODE_SET_PARAMS {"ndparams":{"oob_program":"/bin/oob","spindle_count":"default"},"node_name":"node1"}
$ gnt-node modify --node-parameters=colour=red node1
! Parameter Error: Unknown node parameter 'colour'
! known are: cpu_speed, exclusive_storage, oob_program, ovs, ovs_link, ovs_name, spindle_count, ssh_port
= 1
$ gnt-node modify -D perhaps node1
! Failure: unknown/wrong parameter name 'Invalid boolean value 'perhaps''
! write yes or no
= 1
% forget OP_NODE_SET_PARAMS
% result OP_NODE_SET_PARAMS []
$ gnt-node modify -O yes node2
Node node2 has the requested settings.
> OP_NODE_SET_PARAMS {"node_name":"node2","offline":true}
$ gnt-node modify --dry-run -O yes node2
> OP_NODE_SET_PARAMS {"dry_run":true,"node_name":"node2","offline":true}
$ gnt-node remove node2
> OP_NODE_REMOVE {"node_name":"node2"}
$ gnt-node powercycle node2
! Node node2 will be reset without a shutdown; everything that runs on
! it stops at once. Continue?
! No terminal to ask on; assuming 'n'. With --yes nothing is asked.
= 2
% result OP_NODE_POWERCYCLE "Reboot scheduled in 5 seconds"
$ gnt-node powercycle --yes node2
! Reboot scheduled in 5 seconds
> OP_NODE_POWERCYCLE {"node_name":"node2"}
$ gnt-node add-tags node1 rack7
> OP_TAGS_SET {"kind":"node","name":"node1","tags":["rack7"]}
$ gnt-node list-tags node1.example.org

$ gnt-node failover node1.example.org
! The failover will operate on 1 instance.
! Do you want to continue?
! Affected instance:
!   web.example.org
! No terminal to ask on; assuming 'n'. With --force nothing is asked.
= 2
% answers y
$ gnt-node failover node1.example.org
| The failover will operate on 1 instance.
| Do you want to continue?
| Affected instance:
|   web.example.org
| y/[n]/?:
Submitted jobs 1009
Waiting for job 1009 for web.example.org ...
All 1 instance(s) failed over successfully.
> OP_INSTANCE_FAILOVER {"instance_name":"web.example.org","target_node":"node2.example.org"}
% answers y n
$ gnt-node failover --ignore-consistency node1.example.org
| The failover will operate on 1 instance.
| Do you want to continue?
| Affected instance:
|   web.example.org
| y/[n]/?: The disks on the other nodes may be out of date or incomplete; with
| --ignore-consistency they will be used anyway, and what they lack is
| lost. Continue?
| y/[n]/?:
= 2
$ gnt-node failover -f --ignore-consistency node1.example.org
Submitted jobs 1010
Waiting for job 1010 for web.example.org ...
All 1 instance(s) failed over successfully.
> OP_INSTANCE_FAILOVER {"ignore_consistency":true,"instance_name":"web.example.org","target_node":"node2.example.org"}
$ gnt-node migrate -f --non-live --migration-mode=live node1.example.org
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! Only one of the --non-live and --migration-mode options can be passed
= 1
% result OP_NODE_MIGRATE {"jobs": []}
$ gnt-node migrate -f node1.example.org
All instances migrated successfully.
> OP_NODE_MIGRATE {"node_name":"node1.example.org"}
$ gnt-node migrate -f --non-live node1.example.org
All instances migrated successfully.
> OP_NODE_MIGRATE {"mode":"non-live","node_name":"node1.example.org"}

# Evacuation
% result OP_NODE_EVACUATE {"jobs": [[true, 1001]]}
$ gnt-node evacuate -f -s -I hail --early-release --ignore-soft-errors node2.example.org
Submitted jobs 1001
Waiting for job 1001 ...
All instances evacuated successfully.
> OP_NODE_EVACUATE {"early_release":true,"iallocator":"hail","ignore_soft_errors":true,"mode":"secondary-only","node_name":"node2.example.org"}
$ gnt-node evacuate -f -n node1.example.org node2.example.org
Submitted jobs 1001
Waiting for job 1001 ...
All instances evacuated successfully.
! Note: with a new secondary node only secondary instances are evacuated
> OP_NODE_EVACUATE {"mode":"secondary-only","node_name":"node2.example.org","remote_node":"node1.example.org"}
$ gnt-node evacuate -f node2.example.org
Submitted jobs 1001
Waiting for job 1001 ...
All instances evacuated successfully.
> OP_NODE_EVACUATE {"mode":"all","node_name":"node2.example.org"}
% forget OP_NODE_EVACUATE
# A job that submits others: they count too.
% result OP_NODE_EVACUATE {"jobs": [[true, 1013]]}
$ gnt-node evacuate -f node1.example.org
Submitted jobs 1013
Waiting for job 1013 ...
Submitted jobs 1001
Waiting for job 1001 ...
All instances evacuated successfully.
> OP_NODE_EVACUATE {"mode":"all","node_name":"node1.example.org"}
% forget OP_NODE_EVACUATE
% result OP_NODE_EVACUATE {"jobs": [[false, "queue is full"]]}
$ gnt-node evacuate --submit -f -p node1.example.org
! JobID: 1017
> OP_NODE_EVACUATE {"mode":"primary-only","node_name":"node1.example.org"}
$ gnt-node evacuate -f -p node1.example.org
There were 1 errors during the evacuation.
! Failed to submit job: queue is full
= 1
> OP_NODE_EVACUATE {"mode":"primary-only","node_name":"node1.example.org"}
$ gnt-node evacuate -f -p -s node1.example.org
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! Only one of --primary-only and --secondary-only can be given
! leave out both to move primary and secondary instances
= 1
$ gnt-node evacuate -f -p -n node9 node1.example.org
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! Only one of --primary-only and --new-secondary can be given
! leave out both to move primary and secondary instances
= 1
$ gnt-node evacuate -f -p node2.example.org
! No instances to evacuate on node(s) node2.example.org, exiting.
$ gnt-node evacuate -f -n node9 node2.example.org
! Note: with a new secondary node only secondary instances are evacuated
! Failure: prerequisites not met for this operation:
! error type: unknown_entity, error details:
! Node name node9 not found
= 1
$ gnt-node evacuate -f -n node2.example.org node2.example.org
! Note: with a new secondary node only secondary instances are evacuated
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! Node node2.example.org is being evacuated and cannot be the new secondary node
= 1
$ gnt-node evacuate node1.example.org
! The evacuation will operate on 1 instance.
! Do you want to continue?
! Affected instance:
!   web.example.org
! No terminal to ask on; assuming 'n'. With --force nothing is asked.
= 13

# Disks that every node can use: without a target and an allocator every job would fail for the same reason.
% change disks 00000006-aaaa-4bbb-8ccc-000000000006 {"dev_type": "sharedfile", "children": [], "nodes": [], "logical_id": ["loop", "/srv/web"]}
$ gnt-node migrate -f node1.example.org
All instances migrated successfully.
> OP_NODE_MIGRATE {"node_name":"node1.example.org"}
% change cluster 0 {"default_iallocator": ""}
$ gnt-node migrate -f node1.example.org
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! Disks of template sharedfile can be used on several nodes: give the node to migrate to (-n), or an allocator (-I)
= 1
$ gnt-node migrate -f -n node2 node1.example.org
All instances migrated successfully.
> OP_NODE_MIGRATE {"node_name":"node1.example.org","target_node":"node2"}
$ gnt-node migrate -f -I hail node1.example.org
All instances migrated successfully.
> OP_NODE_MIGRATE {"iallocator":"hail","node_name":"node1.example.org"}

# What nodes keep disks in
% result OP_NODE_QUERYVOLS [["node1.example.org", "/dev/sda", "xenvg", "x.disk0", "10240.00", "web.example.org"], ["node1.example.org", "/dev/sdb", "xenvg", "swap", "512.00", "-"]]
$ gnt-node volumes node1
Node              PhysDev  VG    Name     Size Instance       $
node1.example.org /dev/sda xenvg x.disk0 10.0G web.example.org
node1.example.org /dev/sdb xenvg swap     512M -              $
> OP_NODE_QUERYVOLS {"nodes":["node1"],"output_fields":["node","phys","vg","name","size","instance"]}
% forget OP_NODE_QUERYVOLS
% result OP_NODE_QUERYVOLS [["node1.example.org", "10240.00"], ["node1.example.org", "512.00"]]
$ gnt-node volumes --no-headers --separator=: -o node,size
node1.example.org:10240
node1.example.org:512
> OP_NODE_QUERYVOLS {"output_fields":["node","size"]}
% forget OP_NODE_QUERYVOLS
% result OP_NODE_QUERYVOLS [["x.disk0", "10240.00"]]
$ gnt-node volumes -o json:name,size
[
  {
    "name": "x.disk0",
    "size": "10240.00"
  }
]
> OP_NODE_QUERYVOLS {"output_fields":["name","size"]}
% forget OP_NODE_QUERYVOLS
% fail OP_NODE_QUERYVOLS ["OpPrereqError", ["Unknown output fields selected: colour", "wrong_input"]]
$ gnt-node volumes -o +colour
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! Unknown output fields selected: colour
= 1
> OP_NODE_QUERYVOLS {"output_fields":["node","phys","vg","name","size","instance","colour"]}
% result OP_NODE_QUERY_STORAGE [["node1.example.org", "lvm-vg", "xenvg", 102400.0, 51200.0, 51200.0, true]]
$ gnt-node list-storage -t lvm-vg
Node              Type   Name    Size  Used  Free Allocatable
node1.example.org lvm-vg xenvg 100.0G 50.0G 50.0G Y          $
> OP_NODE_QUERY_STORAGE {"output_fields":["node","type","name","size","used","free","allocatable"],"storage_type":"lvm-vg"}
$ gnt-node list-storage --storage-type tape
! Usage
! =====
!   gnt-node list-storage [options...] [node...]
!
! gnt-node: error: option --storage-type: invalid choice: 'tape' (choose from 'file', 'gluster', 'lvm-pv', 'lvm-vg', 'sharedfile')
= 2
$ gnt-node modify-storage node1 lvm-pv /dev/sda
! No changes to perform, exiting.
$ gnt-node modify-storage --allocatable=no node1 lvm-pv /dev/sda
> OP_NODE_MODIFY_STORAGE {"changes":{"allocatable":false},"name":"/dev/sda","node_name":"node1","storage_type":"lvm-pv"}
$ gnt-node repair-storage --ignore-consistency node1 lvm-vg xenvg
> OP_REPAIR_NODE_STORAGE {"ignore_consistency":true,"name":"xenvg","node_name":"node1","storage_type":"lvm-vg"}
$ gnt-node failover -f -I hail node1.example.org
Submitted jobs 1029
Waiting for job 1029 for web.example.org ...
All 1 instance(s) failed over successfully.
> OP_INSTANCE_FAILOVER {"iallocator":"hail","if_primary":"node1.example.org","instance_name":"web.example.org"}

# Power
% result OP_OOB_COMMAND [[[0, "node1.example.org"], [0, {"powered": true}]], [[0, "node2.example.org"], [0, {"powered": false}]]]
$ gnt-node power status
Node              Status   $
node1.example.org powered  $
node2.example.org unpowered
> OP_OOB_COMMAND {"command":"power-status"}
% forget OP_OOB_COMMAND
% result OP_OOB_COMMAND [[[0, "node1.example.org"], [3, null]], [[0, "node2.example.org"], [2, null]]]
% log OP_OOB_COMMAND  - WARNING: Out-of-band RPC failed on node 'node2.example.org': no route to the BMC
$ gnt-node power --no-headers --separator=: --oob-timeout=10 status node1 node2
Tue Nov 14 22:13:21 2023  - WARNING: Out-of-band RPC failed on node 'node2.example.org': no route to the BMC
node1.example.org:(unavail)
node2.example.org:(nodata)
! Without an out-of-band program: node1.example.org.  'gnt-node modify --node-parameters=oob_program=PATH node1.example.org' names one for a node
= 1
> OP_OOB_COMMAND {"command":"power-status","node_names":["node1","node2"],"timeout":10}
$ gnt-node power -f off node2.example.org
Tue Nov 14 22:13:21 2023  - WARNING: Out-of-band RPC failed on node 'node2.example.org': no route to the BMC
Node              Status   $
node1.example.org (unavail)
node2.example.org (nodata) $
! Without an out-of-band program: node1.example.org.  'gnt-node modify --node-parameters=oob_program=PATH node1.example.org' names one for a node
! Node(s) node1.example.org, node2.example.org: marked offline before the attempt to switch them off; 'gnt-node modify --offline=no node1.example.org' takes a node back that is still on
= 1
> OP_NODE_SET_PARAMS {"node_name":"node2.example.org","offline":true}
> OP_OOB_COMMAND {"command":"power-off","node_names":["node2.example.org"]}
% forget OP_OOB_COMMAND
% result OP_OOB_COMMAND [[[0, "node2.example.org"], [0, null]]]
$ gnt-node power -f --auto-promote off node2
Node              Status $
node2.example.org invoked
> OP_NODE_SET_PARAMS {"auto_promote":true,"node_name":"node2","offline":true}
> OP_OOB_COMMAND {"command":"power-off","node_names":["node2"]}
$ gnt-node power -f --ignore-status off node2
Node              Status $
node2.example.org invoked
> OP_OOB_COMMAND {"command":"power-off","ignore_status":true,"node_names":["node2"]}
$ gnt-node power --power-delay=0.5 on node2
Node              Status $
node2.example.org invoked
! Node node2.example.org is still marked offline; when it is up, 'gnt-node modify --offline=no node2.example.org' takes it back
> OP_OOB_COMMAND {"command":"power-on","node_names":["node2"],"power_delay":0.5}
$ gnt-node power -f cycle node2
Node              Status $
node2.example.org invoked
> OP_OOB_COMMAND {"command":"power-cycle","node_names":["node2"]}
% put instance {"uuid": "00000005-aaaa-4bbb-8ccc-000000000005", "primary_node": "00000004-aaaa-4bbb-8ccc-000000000004", "admin_state": "up"}
$ gnt-node power cycle node2
! The power cycle will operate on 1 node.
! Instances there stop at once, without a shutdown: web.example.org.
! Do you want to continue?
! Affected node:
!   node2
! No terminal to ask on; assuming 'n'. With --force nothing is asked.
= 1
% put instance {"uuid": "00000005-aaaa-4bbb-8ccc-000000000005", "primary_node": "00000003-aaaa-4bbb-8ccc-000000000003", "admin_state": "up"}
$ gnt-node power off
! Please provide at least one node for this command: 'gnt-node power off NODE'
= 1
$ gnt-node power up node2
! power subcommand up not supported; known are on, off, cycle, status
= 1
% answers y
$ gnt-node power cycle node2
| The power cycle will operate on 1 node.
| Do you want to continue?
| Affected node:
|   node2
| y/[n]/?:
Node              Status $
node2.example.org invoked
> OP_OOB_COMMAND {"command":"power-cycle","node_names":["node2"]}
$ gnt-node power -f off node2 node1
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! Operating on the master node node1.example.org is not allowed for power-off; it does not support out-of-band operations; 'poweroff' on it does that by hand
! 'gnt-cluster master-failover' on another node makes that one the master
= 1
% forget OP_OOB_COMMAND
% result OP_OOB_COMMAND [[[0, "node1.example.org"], [0, [["fan", "OK"], ["disk 3", "CRITICAL"]]]], [[0, "node2.example.org"], [0, []]]]
$ gnt-node health
Node              Status         $
node1.example.org fan=OK         $
                  disk 3=CRITICAL
node2.example.org                $
> OP_OOB_COMMAND {"command":"health"}
% forget OP_OOB_COMMAND
% result OP_OOB_COMMAND [[[0, "node2.example.org"], [3, null]]]
$ gnt-node health --oob-timeout=5 node2
Node              Status   $
node2.example.org (unavail)
! Without an out-of-band program: node2.example.org.  'gnt-node modify --node-parameters=oob_program=PATH node2.example.org' names one for a node
= 1
> OP_OOB_COMMAND {"command":"health","node_names":["node2"],"timeout":5}

# Restricted commands
% change nodes 00000004-aaaa-4bbb-8ccc-000000000004 {"offline": false}
% result OP_RESTRICTED_COMMAND [[true, "up 3 days\nload 0.1\n"], [false, "Command 'uptime' on node 'node2.example.org' failed: Executing command 'uptime' failed"]]
$ gnt-node restricted-command uptime node1.example.org node2.example.org
------------------------------------------------
Node: node1.example.org
up 3 days
load 0.1
.
------------------------------------------------
Command 'uptime' on node 'node2.example.org' failed: Executing command 'uptime' failed
= 1
> OP_RESTRICTED_COMMAND {"command":"uptime","nodes":["node1.example.org","node2.example.org"]}
$ gnt-node restricted-command -M --sync -g default uptime
------------------------------------------------
node1.example.org: up 3 days
node1.example.org: load 0.1
------------------------------------------------
Command 'uptime' on node 'node2.example.org' failed: Executing command 'uptime' failed
= 1
> OP_RESTRICTED_COMMAND {"command":"uptime","nodes":["node1.example.org","node2.example.org"],"use_locking":true}
$ gnt-node restricted-command uptime
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! Node group or node names must be given
= 1
$ gnt-node restricted-command uptime node9
! Failure: prerequisites not met for this operation:
! error type: unknown_entity, error details:
! Node name node9 not found
= 1
% change nodes 00000004-aaaa-4bbb-8ccc-000000000004 {"offline": true}
% forget OP_RESTRICTED_COMMAND
% result OP_RESTRICTED_COMMAND [[true, "up 3 days\n"]]
$ gnt-node restricted-command uptime node1.example.org node2.example.org
------------------------------------------------
Node: node1.example.org
up 3 days
.
! Note: skipping offline node(s): node2.example.org
> OP_RESTRICTED_COMMAND {"command":"uptime","nodes":["node1.example.org"]}
$ gnt-node restricted-command uptime node2.example.org
! Note: skipping offline node(s): node2.example.org
! None of these nodes is online: nothing was run
= 1
% forget OP_NODE_SET_PARAMS
% result OP_NODE_SET_PARAMS []
$ gnt-node modify --node-parameters=spindle_count=3 node2
Modified node node2
> OP_NODE_SET_PARAMS {"ndparams":{"spindle_count":3},"node_name":"node2"}
