# gnt-group

$ gnt-group list
Group   Nodes Instances AllocPolicy NDParams
default     2         1 preferred   cpu_speed=1.0, exclusive_storage=False, oob_program=, ovs=False, ovs_link=, ovs_name=switch1, spindle_count=1, ssh_port=22
$ gnt-group list -o name,node_list,tags
Group   NodeList                            Tags
default node1.example.org,node2.example.org []
$ gnt-group info
- Node group: default
  Node parameters: $
    cpu_speed: default (1)
    exclusive_storage: default (False)
    oob_program: default ()
    ovs: default (False)
    ovs_link: default ()
    ovs_name: default (switch1)
    spindle_count: default (1)
    ssh_port: default (22)
  Disk parameters: $
    blockdev: $
    diskless: $
    drbd: $
      c-delay-target: default (1)
      c-fill-target: default (0)
      c-max-rate: default (61440)
      c-min-rate: default (4096)
      c-plan-ahead: default (20)
      data-stripes: default (1)
      disk-barriers: default (n)
      disk-custom: default ()
      dynamic-resync: default (False)
      meta-barriers: default (False)
      meta-stripes: default (1)
      metavg: default (xenvg)
      net-custom: default ()
      protocol: default (C)
      resync-rate: default (61440)
    ext: $
      access: default (kernelspace)
    file: $
    gluster: $
      access: default (kernelspace)
      host: default (127.0.0.1)
      port: default (24007)
      volume: default (gv0)
    plain: $
      stripes: default (1)
    rbd: $
      access: default (kernelspace)
      pool: default (rbd)
    sharedfile: $
  Instance policy: $
    bounds specs: $
      - max/0: $
          cpu-count: default (8)
          disk-count: default (16)
          disk-size: default (1048576)
          memory-size: default (32768)
          nic-count: default (8)
          spindle-use: default (12)
        min/0: $
          cpu-count: default (1)
          disk-count: default (1)
          disk-size: default (1024)
          memory-size: default (128)
          nic-count: default (1)
          spindle-use: default (1)
    allowed disk templates: default (drbd, plain)
    vcpu-ratio: default (4)
    spindle-ratio: default (32)
$ gnt-group info nothing
.
! Warning: group 'nothing' does not exist and is left out
$ gnt-group add --alloc-policy=last_resort --node-parameters=oob_program=/bin/x second
> OP_GROUP_ADD {"alloc_policy":"last_resort","group_name":"second","ndparams":{"oob_program":"/bin/x"}}
$ gnt-group modify default
! Please give at least one of the parameters.
= 1
$ gnt-group modify --ipolicy-disk-templates=default --ipolicy-vcpu-ratio=default --ipolicy-bounds-specs=default default
> OP_GROUP_SET_PARAMS {"group_name":"default","ipolicy":{"minmax":"default","vcpu-ratio":"default","disk-templates":"default"}}
% result OP_GROUP_SET_PARAMS [["ndparams", "{'spindle_count': 2}"]]
$ gnt-group modify --node-parameters=spindle_count=2 default
Modified node group default
 - ndparams -> {'spindle_count': 2}
> OP_GROUP_SET_PARAMS {"group_name":"default","ndparams":{"spindle_count":2}}
$ gnt-group rename default first
> OP_GROUP_RENAME {"group_name":"default","new_name":"first"}
$ gnt-group remove second
> OP_GROUP_REMOVE {"group_name":"second"}
$ gnt-group assign-nodes -f default node2.example.org
> OP_GROUP_ASSIGN_NODES {"force":true,"group_name":"default","nodes":["node2.example.org"]}
$ gnt-group assign-nodes default
> OP_GROUP_ASSIGN_NODES {"group_name":"default","nodes":["node1.example.org","node2.example.org"]}
$ gnt-group show-ispecs-cmd
gnt-group add default
$ gnt-group show-ispecs-cmd --include-defaults default
gnt-group add --ipolicy-bounds-specs min:cpu-count=1,disk-count=1,disk-size=1024,memory-size=128,nic-count=1,spindle-use=1/max:cpu-count=8,disk-count=16,disk-size=1048576,memory-size=32768,nic-count=8,spindle-use=12 default
$ gnt-group add-tags default a
> OP_TAGS_SET {"kind":"nodegroup","name":"default","tags":["a"]}

# Evacuation
% result OP_GROUP_EVACUATE {"jobs": [[true, 1001]]}
$ gnt-group evacuate default
Submitted jobs 1001
Waiting for job 1001 ...
All instances evacuated successfully.
> OP_GROUP_EVACUATE {"group_name":"default"}
$ gnt-group evacuate --to second --to third -I hail --early-release --sequential --force-failover default
Submitted jobs 1001
Waiting for job 1001 ...
All instances evacuated successfully.
> OP_GROUP_EVACUATE {"early_release":true,"force_failover":true,"group_name":"default","iallocator":"hail","sequential":true,"target_groups":["second","third"]}
% forget OP_GROUP_EVACUATE
% result OP_GROUP_EVACUATE {"jobs": [[false, "queue is full"], [true, 1001]]}
$ gnt-group evacuate default
Submitted jobs 1001
Waiting for job 1001 ...
There were 1 errors during the evacuation.
! Failed to submit job: queue is full
= 1
> OP_GROUP_EVACUATE {"group_name":"default"}
