# gnt-cluster

$ gnt-cluster getmaster
node1.example.org
$ gnt-cluster getmaster --output=json
{
  "master_node": "node1.example.org"
}
$ gnt-cluster version
Software version: 3.1.0
Internode protocol: 3010000
Configuration format: 3010000
OS api version: 20
Export interface: 0
VCS version: (none)
$ gnt-cluster master-ping
$ gnt-cluster info
Cluster name: cluster.example.org
Cluster UUID: 00000001-aaaa-4bbb-8ccc-000000000001
Creation time: 2023-11-14 22:13:20
Modification time: 2023-11-14 22:13:20
Master node: node1.example.org
Architecture (this node): 64bits (x86_64)
Tags: (none)
Default hypervisor: kvm
Enabled hypervisors: kvm
Hypervisor parameters: $
  kvm: $
    acpi: True
    boot_order: disk
    cdrom2_image_path: $
    cdrom_disk_type: $
    cdrom_image_path: $
    cpu_cores: 0
    cpu_mask: all
    cpu_sockets: 0
    cpu_threads: 0
    cpu_type: $
    disk_aio: threads
    disk_cache: default
    disk_discard: ignore
    disk_type: paravirtual
    floppy_image_path: $
    initrd_path: $
    kernel_args: ro
    kernel_path: /boot/vmlinuz-3-kvmU
    keymap: $
    kvm_extra: $
    kvm_flag: $
    kvm_path: /usr/bin/kvm
    kvm_pci_reservations: 12
    machine_version: $
    mem_path: $
    migration_bandwidth: 32
    migration_caps: $
    migration_downtime: 30
    migration_mode: live
    migration_port: 8102
    nic_type: paravirtual
    reboot_behavior: reboot
    root_path: /dev/vda1
    scsi_controller_type: lsi
    security_domain: $
    security_model: none
    serial_console: True
    serial_speed: 38400
    soundhw: $
    spice_bind: $
    spice_image_compression: $
    spice_ip_version: 0
    spice_jpeg_wan_compression: $
    spice_password_file: $
    spice_playback_compression: True
    spice_streaming_video: $
    spice_tls_ciphers: HIGH:-DES:-3DES:-EXPORT:-DH
    spice_use_tls: False
    spice_use_vdagent: True
    spice_zlib_glz_wan_compression: $
    usb_devices: $
    usb_mouse: $
    use_chroot: False
    use_guest_agent: False
    use_localtime: False
    user_shutdown: False
    vga: $
    vhost_net: True
    virtio_net_queues: 1
    vnc_bind_address: $
    vnc_password_file: $
    vnc_tls: False
    vnc_x509_path: $
    vnc_x509_verify: False
    vnet_hdr: True
OS-specific hypervisor parameters: $
  debian+minimal: $
    kvm: $
      acpi: False
OS parameters: $
  debian: $
    mirror: http://deb.example.org
Hidden OSes: $
Blacklisted OSes: $
Cluster parameters: $
  candidate pool size: 10
  maximal number of jobs running simultaneously: 20
  maximal number of jobs simultaneously tracked by the scheduler: 25
  mac prefix: aa:00:00
  master netdev: br0
  master netmask: 32
  use external master IP address setup script: False
  lvm volume group: xenvg
  lvm reserved volumes: (none)
  drbd usermode helper: /bin/true
  file storage path: /srv/ganeti/file-storage
  shared file storage path: $
  gluster storage path: $
  maintenance of node health: False
  uid pool: 4000-4019
  default instance allocator: hail
  default instance allocator parameters: $
  primary ip version: 4
  preallocation wipe disks: False
  OS search path: /srv/ganeti/os, /usr/local/lib/ganeti/os, /usr/lib/ganeti/os, /usr/share/ganeti/os
  ExtStorage Providers search path: /srv/ganeti/extstorage, /usr/local/lib/ganeti/extstorage, /usr/lib/ganeti/extstorage, /usr/share/ganeti/extstorage
  enabled disk templates: drbd, plain
  install image: $
  instance communication network: $
  zeroing image: $
  compression tools: $
    - gzip
    - gzip-fast
    - gzip-slow
  enabled user shutdown: False
  modify ssh setup: True
  ssh_key_type: rsa
  ssh_key_bits: 2048
Default node parameters: $
  cpu_speed: 1
  exclusive_storage: False
  oob_program: $
  ovs: False
  ovs_link: $
  ovs_name: switch1
  spindle_count: 1
  ssh_port: 22
Default instance parameters: $
  default: $
    always_failover: False
    auto_balance: True
    maxmem: 128
    minmem: 128
    spindle_use: 1
    vcpus: 1
Default nic parameters: $
  default: $
    link: br0
    mode: bridged
    vlan: $
Default disk parameters: $
  blockdev: $
  diskless: $
  drbd: $
    c-delay-target: 1
    c-fill-target: 0
    c-max-rate: 61440
    c-min-rate: 4096
    c-plan-ahead: 20
    data-stripes: 1
    disk-barriers: n
    disk-custom: $
    dynamic-resync: False
    meta-barriers: False
    meta-stripes: 1
    metavg: xenvg
    net-custom: $
    protocol: C
    resync-rate: 61440
  ext: $
    access: kernelspace
  file: $
  gluster: $
    access: kernelspace
    host: 127.0.0.1
    port: 24007
    volume: gv0
  plain: $
    stripes: 1
  rbd: $
    access: kernelspace
    pool: rbd
  sharedfile: $
Instance policy - limits for instances: $
  bounds specs: $
    - max/0: $
        cpu-count: 8
        disk-count: 16
        disk-size: 1048576
        memory-size: 32768
        nic-count: 8
        spindle-use: 12
      min/0: $
        cpu-count: 1
        disk-count: 1
        disk-size: 1024
        memory-size: 128
        nic-count: 1
        spindle-use: 1
  std: $
    cpu-count: 1
    disk-count: 1
    disk-size: 1024
    memory-size: 128
    nic-count: 1
    spindle-use: 1
  allowed disk templates: drbd, plain
  vcpu-ratio: 4
  spindle-ratio: 32
Data collectors: $
  cpu-avg-load: $
    active: True
    interval: 5.000s
  diskstats: $
    active: True
    interval: 5.000s
  drbd: $
    active: True
    interval: 5.000s
  inst-status-xen: $
    active: True
    interval: 5.000s
  lv: $
    active: True
    interval: 5.000s
  xen-cpu-avg-load: $
    active: True
    interval: 5.000s
$ gnt-cluster list-tags
$ gnt-cluster add-tags one two
> OP_TAGS_SET {"kind":"cluster","tags":["one","two"]}
$ gnt-cluster add-tags
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! No tags to be added
= 1
% file tags three\n\nfour\n
$ gnt-cluster add-tags --from tags one
> OP_TAGS_SET {"kind":"cluster","tags":["one","three","","four"]}
$ gnt-cluster add-tags --from missing
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! Cannot read 'missing': No such file or directory
= 1
$ gnt-cluster remove-tags one
> OP_TAGS_DEL {"kind":"cluster","tags":["one"]}
% result OP_TAGS_SEARCH [["/nodes/node1.example.org", "a"], ["/cluster", "b"]]
$ gnt-cluster search-tags .
/cluster b
/nodes/node1.example.org a
> OP_TAGS_SEARCH {"pattern":"."}
% forget OP_TAGS_SEARCH
% result OP_TAGS_SEARCH []
$ gnt-cluster search-tags .
= 1
> OP_TAGS_SEARCH {"pattern":"."}
$ gnt-cluster show-ispecs-cmd
gnt-cluster init --ipolicy-std-specs cpu-count=1,disk-count=1,disk-size=1024,memory-size=128,nic-count=1,spindle-use=1 --ipolicy-bounds-specs min:cpu-count=1,disk-count=1,disk-size=1024,memory-size=128,nic-count=1,spindle-use=1/max:cpu-count=8,disk-count=16,disk-size=1048576,memory-size=32768,nic-count=8,spindle-use=12 cluster.example.org

$ gnt-cluster queue info
The drain flag is unset
$ gnt-cluster queue drain
< ["SetDrainFlag",true]
$ gnt-cluster queue undrain
< ["SetDrainFlag",false]
$ gnt-cluster queue dance
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! Command 'dance' is not valid.
! write drain, undrain or info
= 1
$ gnt-cluster rapi-token list
Name   Role    Tags Created             Expires
backup read    -    2023-11-14 22:13:20 2023-11-14 23:13:20 (expired)
web    operate a,b  2023-11-14 22:13:20 never
$ gnt-cluster rapi-token --no-headers --separator=: list
backup:read:-:2023-11-14 22:13:20:2023-11-14 23:13:20 (expired)
web:operate:a,b:2023-11-14 22:13:20:never
$ gnt-cluster rapi-token --output=json list
[
  {
    "name": "backup",
    "role": "read",
    "tags": [],
    "created": 1700000000.0,
    "expires": 1700003600.0
  },
  {
    "name": "web",
    "role": "operate",
    "tags": [
      "a",
      "b"
    ],
    "created": 1700000000.0,
    "expires": null
  }
]
$ gnt-cluster rapi-token remove backup
> OP_CLUSTER_RAPI_TOKEN_REMOVE {"name":"backup"}
$ gnt-cluster rapi-token remove
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! The name of the token is missing
! write: gnt-cluster rapi-token remove NAME
= 1
$ gnt-cluster rapi-token add backup
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! The role of the token is missing
! add --role read, operate or admin before backup
= 1
$ gnt-cluster rapi-token --role root add backup
! Usage
! =====
!   gnt-cluster rapi-token [options...] <add|list|remove> [name]
!
! gnt-cluster: error: option --role: invalid choice: 'root' (choose from 'read', 'operate', 'admin')
= 2
$ gnt-cluster rapi-token --role read add a.b
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! 'a.b' is not a valid name of a token
! use a name of up to 64 letters, digits, _ and -
= 1
$ gnt-cluster rapi-token --role read --expires 0 add backup
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! A token must expire in the future
! choose a time such as 12h or 30d
= 1
$ gnt-cluster rapi-token revoke backup
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! Command 'revoke' is not valid.
! write add, list or remove
= 1
$ gnt-cluster watcher info
The watcher is not paused.
$ gnt-cluster watcher pause
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! Missing pause duration
! such as 'gnt-cluster watcher pause 30m'
= 1
$ gnt-cluster watcher pause soon
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! Invalid time specification 'soon'
! write a number of seconds, or one with m, h, d or w, such as 30m
= 1
$ gnt-cluster watcher pause -5
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! Invalid time specification '-5': it is below 0
= 1
$ gnt-cluster rapi-token list nope
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! 'nope': list takes no name
! write: gnt-cluster rapi-token list
= 1
$ gnt-cluster rapi-token --role=read --expires=99999999d add new
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! A token cannot expire later than in 36500 days
! choose a time such as 12h or 30d, or leave out --expires for a token that never expires
= 1
$ gnt-cluster watcher continue
The watcher is no longer paused.
< ["SetWatcherPause",false]
$ gnt-cluster watcher dance
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! Command 'dance' is not valid.
= 1

$ gnt-cluster redist-conf
> OP_CLUSTER_REDIST_CONF {}
$ gnt-cluster redist-conf --yes-do-it
> OP_CLUSTER_REDIST_CONF {}
% result OP_CLUSTER_REDIST_CONF ["node3.example.org"]
$ gnt-cluster redist-conf
= 1
> OP_CLUSTER_REDIST_CONF {}
$ gnt-cluster redist-conf --yes-do-it
= 1
> OP_CLUSTER_REDIST_CONF {}
% forget OP_CLUSTER_REDIST_CONF
$ gnt-cluster repair-disk-sizes web
> OP_CLUSTER_REPAIR_DISK_SIZES {"instances":["web"]}
$ gnt-cluster activate-master-ip
> OP_CLUSTER_ACTIVATE_MASTER_IP {}
$ gnt-cluster deactivate-master-ip
! The master IP address will be removed from the master node, and all
! connections to it will be closed. The node's own address stays
! reachable. Continue?
! No terminal to ask on; assuming 'n'. With --yes nothing is asked.
= 1
$ gnt-cluster deactivate-master-ip --yes
> OP_CLUSTER_DEACTIVATE_MASTER_IP {}

# Without a terminal the answer is no.
$ gnt-cluster rename new.example.org
! The cluster will be renamed from 'cluster.example.org' to
! 'new.example.org', and the master IP address will change. If you are
! connected to that address, the connection will break before the change
! is complete. Continue?
! No terminal to ask on; assuming 'n'. With --force nothing is asked.
= 1
% answers x ? yes y
% result OP_CLUSTER_RENAME "new.example.org"
$ gnt-cluster rename new.example.org
| The cluster will be renamed from 'cluster.example.org' to
| 'new.example.org', and the master IP address will change. If you are
| connected to that address, the connection will break before the change
| is complete. Continue?
| y/[n]/?: The cluster will be renamed from 'cluster.example.org' to
| 'new.example.org', and the master IP address will change. If you are
| connected to that address, the connection will break before the change
| is complete. Continue?
| y/[n]/?:  y - Perform the operation
|  n - Do not perform the operation
|
| The cluster will be renamed from 'cluster.example.org' to
| 'new.example.org', and the master IP address will change. If you are
| connected to that address, the connection will break before the change
| is complete. Continue?
| y/[n]/?: The cluster will be renamed from 'cluster.example.org' to
| 'new.example.org', and the master IP address will change. If you are
| connected to that address, the connection will break before the change
| is complete. Continue?
| y/[n]/?:
Cluster renamed from 'cluster.example.org' to 'new.example.org'
> OP_CLUSTER_RENAME {"name":"new.example.org"}
% answers n
$ gnt-cluster rename new.example.org
| The cluster will be renamed from 'cluster.example.org' to
| 'new.example.org', and the master IP address will change. If you are
| connected to that address, the connection will break before the change
| is complete. Continue?
| y/[n]/?:
= 1
$ gnt-cluster rename -f new.example.org
Cluster renamed from 'cluster.example.org' to 'new.example.org'
> OP_CLUSTER_RENAME {"name":"new.example.org"}

# Verification: a job that submits jobs.
% result OP_CLUSTER_VERIFY {"jobs": [[true, 1001], [false, "queue is full"]]}
$ gnt-cluster verify
Submitted jobs 1001
Waiting for job 1001 ...
1 job(s) failed while verifying the cluster.
! Failed to submit job: queue is full
= 1
> OP_CLUSTER_VERIFY {}
% forget OP_CLUSTER_VERIFY
% result OP_CLUSTER_VERIFY {"jobs": []}
$ gnt-cluster verify --error-codes -v --no-nplus1-mem -I ENODELVM --node-group=default
> OP_CLUSTER_VERIFY {"error_codes":true,"group_name":"default","ignore_errors":["ENODELVM"],"skip_checks":["nplusone_mem"],"verbose":true}
$ gnt-cluster verify -I NONSENSE
! Usage
! =====
!   gnt-cluster verify [options...]
!
! gnt-cluster: error: option -I: invalid choice: 'NONSENSE' (choose from 'ECLUSTERCERT', 'ECLUSTERCFG', 'ECLUSTERCLIENTCERT', 'ECLUSTERDANGLINGINST', 'ECLUSTERDANGLINGNODES', 'ECLUSTERFILECHECK', 'EEXTAGS', 'EGROUPDIFFERENTPVSIZE', 'EINSTANCEBADNODE', 'EINSTANCEDOWN', 'EINSTANCEFAULTYDISK', 'EINSTANCELAYOUT', 'EINSTANCEMISSINGCFGPARAMETER', 'EINSTANCEMISSINGDISK', 'EINSTANCEPOLICY', 'EINSTANCESPLITGROUPS', 'EINSTANCEUNSUITABLENODE', 'EINSTANCEWRONGNODE', 'ENODEDRBD', 'ENODEDRBDHELPER', 'ENODEDRBDVERSION', 'ENODEFILECHECK', 'ENODEFILESTORAGEPATHS', 'ENODEFILESTORAGEPATHUNUSABLE', 'ENODEGLUSTERSTORAGEPATHUNUSABLE', 'ENODEHOOKS', 'ENODEHV', 'ENODELOSS', 'ENODELVM', 'ENODEN1', 'ENODENET', 'ENODEOOBPATH', 'ENODEORPHANINSTANCE', 'ENODEORPHANLV', 'ENODEOS', 'ENODERPC', 'ENODESETUP', 'ENODESHAREDFILESTORAGEPATHUNUSABLE', 'ENODESSH', 'ENODETIME', 'ENODEUSERSCRIPTS', 'ENODEVERSION')
= 2
% result OP_CLUSTER_VERIFY_DISKS {"jobs": []}
$ gnt-cluster verify-disks --no-strict -g default
> OP_CLUSTER_VERIFY_DISKS {"group_name":"default","is_strict":false}

$ gnt-cluster modify
! Please give at least one of the parameters.
= 1
$ gnt-cluster modify -C 5 --vg-name= --enabled-hypervisors=kvm,fake
> OP_CLUSTER_SET_PARAMS {"candidate_pool_size":5,"enabled_hypervisors":["kvm","fake"],"vg_name":""}
$ gnt-cluster modify --default-iallocator-params=
> OP_CLUSTER_SET_PARAMS {"default_iallocator_params":{}}
$ gnt-cluster modify -B memory=1g,vcpus=2,auto_balance=false -N mode=routed,link=br1
> OP_CLUSTER_SET_PARAMS {"beparams":{"memory":1024,"vcpus":2,"auto_balance":false},"nicparams":{"mode":"routed","link":"br1"}}
$ gnt-cluster modify -B colour=red
! Parameter Error: Unknown backend parameter 'colour'
! known are: always_failover, auto_balance, maxmem, memory, minmem, spindle_use, vcpus
= 1
$ gnt-cluster modify -B maxmem=big
! Parameter Error: Invalid value 'big' of backend parameter 'maxmem': expected a size in MiB ('big' is not a valid size: write a number with m, g or t, such as 512m)
= 1
$ gnt-cluster modify -H kvm:acpi=false,kernel_path=/boot/vmlinuz -H fake
> OP_CLUSTER_SET_PARAMS {"hvparams":{"kvm":{"acpi":false,"kernel_path":"/boot/vmlinuz"},"fake":{}}}
$ gnt-cluster modify -H vmware:x=1
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! Unknown hypervisor 'vmware'
= 1
$ gnt-cluster modify -H no_kvm
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! Option -H: 'kvm' cannot be removed
= 1
$ gnt-cluster modify -D drbd:metavg=other,resync-rate=1000 -D plain:stripes=2
> OP_CLUSTER_SET_PARAMS {"diskparams":{"drbd":{"metavg":"other","resync-rate":1000},"plain":{"stripes":2}}}
$ gnt-cluster modify -D floppy:x=1
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! Unknown disk template 'floppy'
= 1
$ gnt-cluster modify --uid-pool=1000-1005,2000 --remove-uids=
> OP_CLUSTER_SET_PARAMS {"remove_uids":[],"uid_pool":[[1000,1005],[2000,2000]]}
$ gnt-cluster modify --add-uids=5-1
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! Lower boundary higher than upper boundary in range '5-1'
= 1
$ gnt-cluster modify --reserved-lvs= --compression-tools=
> OP_CLUSTER_SET_PARAMS {"compression_tools":["gzip","gzip-fast","gzip-slow"],"reserved_lvs":[]}
$ gnt-cluster modify --install-image=/srv/images/install.img
> OP_CLUSTER_SET_PARAMS {"install_image":"/srv/images/install.img"}
$ gnt-cluster modify --zeroing-image=/srv/images/zeroing.img --compression-tools=gzip,lzop
> OP_CLUSTER_SET_PARAMS {"compression_tools":["gzip","lzop"],"zeroing_image":"/srv/images/zeroing.img"}
$ gnt-cluster modify --reserved-lvs=root\\,x,swap
> OP_CLUSTER_SET_PARAMS {"reserved_lvs":["root,x","swap"]}
$ gnt-cluster modify --ipolicy-vcpu-ratio=3.5 --ipolicy-disk-templates=plain,drbd --ipolicy-std-specs=memory-size=1g
> OP_CLUSTER_SET_PARAMS {"ipolicy":{"std":{"memory-size":1024},"vcpu-ratio":3.5,"disk-templates":["plain","drbd"]}}
$ gnt-cluster modify --ipolicy-memory-ratio=1.5 --ipolicy-max-node-failures=2
> OP_CLUSTER_SET_PARAMS {"ipolicy":{"memory-ratio":1.5,"max-node-failures":2.0}}
$ gnt-cluster modify --ipolicy-memory-ratio=default --ipolicy-max-node-failures=default
> OP_CLUSTER_SET_PARAMS {"ipolicy":{"memory-ratio":"default","max-node-failures":"default"}}
$ gnt-cluster modify --ipolicy-bounds-specs=min:memory-size=128/max:memory-size=1g
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! Missing cpu-count, disk-count, disk-size, nic-count, spindle-use in 'min' of option --ipolicy-bounds-specs
= 1
$ gnt-cluster modify --ipolicy-std-specs=colour=1
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! Invalid key 'colour' in option --ipolicy-std-specs
! known are: memory-size, cpu-count, disk-count, disk-size, nic-count, spindle-use
= 1
$ gnt-cluster modify --maintain-node-health=maybe
! Failure: unknown/wrong parameter name 'Invalid boolean value 'maybe''
! write yes or no
= 1
$ gnt-cluster modify --maintain-node-health=yes --master-netmask=24 --hypervisor-state kvm:cpu_node=2
> OP_CLUSTER_SET_PARAMS {"hv_state":{"kvm":{"cpu_node":2}},"maintain_node_health":true,"master_netmask":24}
$ gnt-cluster modify --master-netmask=wide
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! Option --master-netmask: 'wide' is not a number
= 1
$ gnt-cluster modify --disk-state plain/xenvg:disk_total=1000
> OP_CLUSTER_SET_PARAMS {"disk_state":{"plain":{"xenvg":{"disk_total":1000}}}}
$ gnt-cluster modify --data-collector-interval=inst-status-xen=0
! Interval of data collector 'inst-status-xen' must be greater than 0 seconds
= 1
$ gnt-cluster modify --data-collector-interval=diskstats=2.5 --enabled-data-collectors=lv=no
> OP_CLUSTER_SET_PARAMS {"data_collector_interval":{"diskstats":2500000},"enabled_data_collectors":{"lv":false}}
$ gnt-cluster modify -C five
! Usage
! =====
!   gnt-cluster modify [options...]
!
! gnt-cluster: error: option -C: invalid integer value: 'five'
= 2
$ gnt-cluster modify -B vcpus=1,vcpus=2
! Failure: unknown/wrong parameter name 'Duplicate key 'vcpus' in option -B'
= 1

# Emergency power-off
$ gnt-cluster epo
! node1.example.org is the master node, please do a master-failover to another node not affected by the EPO or use --all if you intend to shutdown the whole cluster
= 1
$ gnt-cluster epo -f --groups default
! node1.example.org is the master node, please do a master-failover to another node not affected by the EPO or use --all if you intend to shutdown the whole cluster
= 1
$ gnt-cluster epo --groups --all
! Only one of --groups or --all are allowed
= 1
$ gnt-cluster epo --all node2.example.org
! Arguments in combination with --all are not allowed
= 1
$ gnt-cluster epo -f node9
! Failure: prerequisites not met for this operation:
! error type: unknown_entity, error details:
! Node name node9 not found
= 1
$ gnt-cluster epo -f --groups nobody
! Failure: prerequisites not met for this operation:
! error type: unknown_entity, error details:
! NodeGroup name nobody not found
= 1
$ gnt-cluster epo --on node2.example.org
Node node2.example.org does not support out-of-band handling, it can not be handled in a fully automated manner
! The epo will operate on 1 node.
! To be switched ON: no node.
! Not to be switched: node2.example.org.
! Do you want to continue?
! Affected node:
!   node2.example.org
! No terminal to ask on; assuming 'n'. With --force nothing is asked.
= 1

# Whoever is no master is told where it is.
% stop
% write /var/lib/ganeti/ssconf_master_node node2.example.org
$ gnt-cluster info
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! This is not the master node, please connect to node 'node2.example.org' and rerun the command
= 1
$ gnt-cluster master-ping
= 1
% remove /var/lib/ganeti/ssconf_master_node
$ gnt-cluster info
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! Cluster not initialized or this machine is not part of a cluster
= 1
$ gnt-cluster getmaster
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! Cluster not initialized or this machine is not part of a cluster
= 1
$ gnt-cluster
Usage: gnt-cluster {command} [options...] [argument...]
gnt-cluster <command> --help to see details, or man gnt-cluster
.
Commands:
 activate-master-ip   - Configure the master IP address on the master node
 add-tags             - Add tags to the cluster
 capacity             - Show which node's failure the cluster cannot bear, and
                        how many more instances fit
 command              - Run a shell command as root on all online nodes, or on
                        some of them
 copyfile             - Copy a file of the master node to all online nodes, or
                        to some of them
 deactivate-master-ip - Remove the master IP address from the master node
 destroy              - Destroy the cluster; it must have no instances and no
                        other nodes
 epo                  - Switch nodes off in an emergency, after stopping their
                        instances, or on again
 getmaster            - Print the name of the master node; works on every node,
                        without any daemon
 info                 - Show the settings of the cluster
 init                 - Create a cluster whose first node and master is this
                        machine
 list-tags            - List the tags of the cluster
 master-failover      - Make this node the master; run it on a master candidate
 master-ping          - Check whether the master daemon answers; prints nothing,
                        the exit code is 0 if it does
 modify               - Change settings of the cluster
 queue                - Drain the job queue, so that it accepts no new jobs,
                        undo that, or show the state
 rapi-token           - Add, list or remove tokens with which programs use the
                        remote interface
 redist-conf          - Copy the cluster's files to all nodes again
 remove-tags          - Remove tags from the cluster
 rename               - Rename the cluster and change the master IP address to
                        that of the new name
 renew-crypto         - Replace certificates and keys of the cluster while it is
                        running
 repair-disk-sizes    - Correct recorded disk sizes that differ from those of
                        the devices
 search-tags          - Search the tags of all objects for a regular expression;
                        the exit code is 1 if nothing matches
 show-ispecs-cmd      - Print the command line that initializes a cluster with
                        the same instance policy
 upgrade              - Change the release that all nodes run
 verify               - Check configuration, nodes and instances; the exit code
                        is 1 if there is an error
 verify-disks         - Activate disks that should be active and report missing
                        ones
 version              - Print the versions of software and formats
 watcher              - Pause the watcher for a while (such as 30m or 2h), end
                        the pause, or show it
.
= 1
$ gnt-cluster --version
gnt-cluster (ganeti (none)) 3.1.0
$ gnt-cluster renew-crypto
Updating certificates now. Running "gnt-cluster verify" is recommended after this operation.
! No option says what to renew: see 'gnt-cluster renew-crypto --help'
= 1
