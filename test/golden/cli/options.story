# Options that no other story shows: each reaches the master, or changes what is printed

# gnt-cluster

% file tags one\ntwo\n
$ gnt-cluster add-tags --submit --print-jobid --priority=high fast
1001
! JobID: 1001
> OP_TAGS_SET {"kind":"cluster","priority":-10,"tags":["fast"]}
$ gnt-cluster remove-tags --submit --print-jobid --priority=low --from=tags
1002
! JobID: 1002
> OP_TAGS_DEL {"kind":"cluster","priority":10,"tags":["one","two"]}
$ gnt-cluster info --roman
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
    kvm_pci_reservations: XII
    machine_version: $
    mem_path: $
    migration_bandwidth: XXXII
    migration_caps: $
    migration_downtime: XXX
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
    virtio_net_queues: I
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
  candidate pool size: X
  maximal number of jobs running simultaneously: XX
  maximal number of jobs simultaneously tracked by the scheduler: XXV
  mac prefix: aa:00:00
  master netdev: br0
  master netmask: XXXII
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
  primary ip version: IV
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
  ssh_key_bits: MMXLVIII
Default node parameters: $
  cpu_speed: 1
  exclusive_storage: False
  oob_program: $
  ovs: False
  ovs_link: $
  ovs_name: switch1
  spindle_count: I
  ssh_port: XXII
Default instance parameters: $
  default: $
    always_failover: False
    auto_balance: True
    maxmem: CXXVIII
    minmem: CXXVIII
    spindle_use: I
    vcpus: I
Default nic parameters: $
  default: $
    link: br0
    mode: bridged
    vlan: $
Default disk parameters: $
  blockdev: $
  diskless: $
  drbd: $
    c-delay-target: I
    c-fill-target: 0
    c-max-rate: 61440
    c-min-rate: 4096
    c-plan-ahead: XX
    data-stripes: I
    disk-barriers: n
    disk-custom: $
    dynamic-resync: False
    meta-barriers: False
    meta-stripes: I
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
    stripes: I
  rbd: $
    access: kernelspace
    pool: rbd
  sharedfile: $
Instance policy - limits for instances: $
  bounds specs: $
    - max/0: $
        cpu-count: VIII
        disk-count: XVI
        disk-size: 1048576
        memory-size: 32768
        nic-count: VIII
        spindle-use: XII
      min/0: $
        cpu-count: I
        disk-count: I
        disk-size: MXXIV
        memory-size: CXXVIII
        nic-count: I
        spindle-use: I
  std: $
    cpu-count: I
    disk-count: I
    disk-size: MXXIV
    memory-size: CXXVIII
    nic-count: I
    spindle-use: I
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
$ gnt-cluster info --output=json
{
  "software_version": "3.1.0",
  "protocol_version": 3010000,
  "config_version": 3010000,
  "os_api_version": 20,
  "export_version": 0,
  "vcs_version": "(none)",
  "architecture": [
    "64bits",
    "x86_64"
  ],
  "name": "cluster.example.org",
  "master": "node1.example.org",
  "default_hypervisor": "kvm",
  "primary_ip_version": 4,
  "volume_group_name": "xenvg",
  "drbd_usermode_helper": "/bin/true",
  "beparams": {
    "default": {
      "minmem": 128,
      "maxmem": 128,
      "vcpus": 1,
      "auto_balance": true,
      "always_failover": false,
      "spindle_use": 1
    }
  },
  "nicparams": {
    "default": {
      "mode": "bridged",
      "link": "br0",
      "vlan": ""
    }
  },
  "osparams": {
    "debian": {
      "mirror": "http://deb.example.org"
    }
  },
  "hvparams": {
    "kvm": {
      "acpi": true,
      "boot_order": "disk",
      "cdrom2_image_path": "",
      "cdrom_disk_type": "",
      "cdrom_image_path": "",
      "cpu_cores": 0,
      "cpu_mask": "all",
      "cpu_sockets": 0,
      "cpu_threads": 0,
      "cpu_type": "",
      "disk_aio": "threads",
      "disk_cache": "default",
      "disk_discard": "ignore",
      "disk_type": "paravirtual",
      "floppy_image_path": "",
      "initrd_path": "",
      "kernel_args": "ro",
      "kernel_path": "/boot/vmlinuz-3-kvmU",
      "keymap": "",
      "kvm_extra": "",
      "kvm_flag": "",
      "kvm_path": "/usr/bin/kvm",
      "kvm_pci_reservations": 12,
      "machine_version": "",
      "mem_path": "",
      "migration_bandwidth": 32,
      "migration_caps": "",
      "migration_downtime": 30,
      "migration_mode": "live",
      "migration_port": 8102,
      "nic_type": "paravirtual",
      "reboot_behavior": "reboot",
      "root_path": "/dev/vda1",
      "scsi_controller_type": "lsi",
      "security_domain": "",
      "security_model": "none",
      "serial_console": true,
      "serial_speed": 38400,
      "soundhw": "",
      "spice_bind": "",
      "spice_image_compression": "",
      "spice_ip_version": 0,
      "spice_jpeg_wan_compression": "",
      "spice_password_file": "",
      "spice_playback_compression": true,
      "spice_streaming_video": "",
      "spice_tls_ciphers": "HIGH:-DES:-3DES:-EXPORT:-DH",
      "spice_use_tls": false,
      "spice_use_vdagent": true,
      "spice_zlib_glz_wan_compression": "",
      "usb_devices": "",
      "usb_mouse": "",
      "use_chroot": false,
      "use_guest_agent": false,
      "use_localtime": false,
      "user_shutdown": false,
      "vga": "",
      "vhost_net": true,
      "virtio_net_queues": 1,
      "vnc_bind_address": "",
      "vnc_password_file": "",
      "vnc_tls": false,
      "vnc_x509_path": "",
      "vnc_x509_verify": false,
      "vnet_hdr": true
    },
    "fake": {
      "migration_mode": "live"
    },
    "chroot": {
      "init_script": "/ganeti-chroot"
    },
    "lxc": {
      "cpu_mask": "",
      "devices": "c 1:3 rw,c 1:5 rw,c 1:7 rw,c 1:8 rw,c 1:9 rw,c 1:10 rw,c 5:0 rw,c 5:1 rw,c 5:2 rw,c 136:* rw",
      "drop_capabilities": "mac_override,sys_boot,sys_module,sys_time,sys_admin",
      "extra_cgroups": "",
      "extra_config": "",
      "num_ttys": 6,
      "startup_timeout": 30
    },
    "xen-pvm": {
      "blockdev_prefix": "sd",
      "bootloader_args": "",
      "bootloader_path": "",
      "cpu_cap": 0,
      "cpu_mask": "all",
      "cpu_weight": 256,
      "cpuid": "",
      "initrd_path": "",
      "kernel_args": "ro",
      "kernel_path": "/boot/vmlinuz-3-xenU",
      "migration_mode": "live",
      "migration_port": 8002,
      "reboot_behavior": "reboot",
      "root_path": "/dev/xvda1",
      "soundhw": "",
      "use_bootloader": false,
      "vif_script": ""
    },
    "xen-hvm": {
      "acpi": true,
      "blockdev_prefix": "hd",
      "boot_order": "cd",
      "cdrom_image_path": "",
      "cpu_cap": 0,
      "cpu_mask": "all",
      "cpu_weight": 256,
      "cpuid": "",
      "device_model": "/usr/lib/xen/bin/qemu-dm",
      "disk_type": "paravirtual",
      "kernel_path": "/usr/lib/xen/boot/hvmloader",
      "migration_mode": "non-live",
      "migration_port": 8002,
      "nic_type": "rtl8139",
      "pae": true,
      "pci_pass": "",
      "reboot_behavior": "reboot",
      "soundhw": "",
      "use_localtime": false,
      "vif_script": "",
      "vif_type": "ioemu",
      "viridian": false,
      "vnc_bind_address": "0.0.0.0",
      "vnc_password_file": "/etc/ganeti/vnc-cluster-password"
    }
  },
  "enabled_data_collectors": {
    "cpu-avg-load": true,
    "diskstats": true,
    "drbd": true,
    "inst-status-xen": true,
    "lv": true,
    "xen-cpu-avg-load": true
  },
  "data_collector_interval": {
    "cpu-avg-load": 5000000,
    "diskstats": 5000000,
    "drbd": 5000000,
    "inst-status-xen": 5000000,
    "lv": 5000000,
    "xen-cpu-avg-load": 5000000
  },
  "uuid": "00000001-aaaa-4bbb-8ccc-000000000001",
  "ctime": 1700000000.5,
  "mtime": 1700000000.5,
  "tags": [],
  "enabled_hypervisors": [
    "kvm"
  ],
  "os_hvp": {
    "debian+minimal": {
      "kvm": {
        "acpi": false
      }
    }
  },
  "ipolicy": {
    "minmax": [
      {
        "min": {
          "memory-size": 128,
          "cpu-count": 1,
          "disk-count": 1,
          "disk-size": 1024,
          "nic-count": 1,
          "spindle-use": 1
        },
        "max": {
          "memory-size": 32768,
          "cpu-count": 8,
          "disk-count": 16,
          "disk-size": 1048576,
          "nic-count": 8,
          "spindle-use": 12
        }
      }
    ],
    "std": {
      "memory-size": 128,
      "cpu-count": 1,
      "disk-count": 1,
      "disk-size": 1024,
      "nic-count": 1,
      "spindle-use": 1
    },
    "vcpu-ratio": 4.0,
    "spindle-ratio": 32.0,
    "disk-templates": [
      "drbd",
      "plain"
    ]
  },
  "ndparams": {
    "oob_program": "",
    "spindle_count": 1,
    "exclusive_storage": false,
    "ovs": false,
    "ovs_name": "switch1",
    "ovs_link": "",
    "ssh_port": 22,
    "cpu_speed": 1.0
  },
  "diskparams": {
    "drbd": {
      "resync-rate": 61440,
      "data-stripes": 1,
      "meta-stripes": 1,
      "disk-barriers": "n",
      "meta-barriers": false,
      "metavg": "xenvg",
      "disk-custom": "",
      "net-custom": "",
      "protocol": "C",
      "dynamic-resync": false,
      "c-plan-ahead": 20,
      "c-fill-target": 0,
      "c-delay-target": 1,
      "c-max-rate": 61440,
      "c-min-rate": 4096
    },
    "plain": {
      "stripes": 1
    },
    "file": {},
    "sharedfile": {},
    "gluster": {
      "access": "kernelspace",
      "host": "127.0.0.1",
      "port": 24007,
      "volume": "gv0"
    },
    "blockdev": {},
    "rbd": {
      "pool": "rbd",
      "access": "kernelspace"
    },
    "ext": {
      "access": "kernelspace"
    },
    "diskless": {}
  },
  "candidate_pool_size": 10,
  "max_running_jobs": 20,
  "max_tracked_jobs": 25,
  "mac_prefix": "aa:00:00",
  "master_netdev": "br0",
  "master_netmask": 32,
  "use_external_mip_script": false,
  "file_storage_dir": "/srv/ganeti/file-storage",
  "shared_file_storage_dir": "",
  "gluster_storage_dir": "",
  "enabled_disk_templates": [
    "drbd",
    "plain"
  ],
  "reserved_lvs": [],
  "prealloc_wipe_disks": false,
  "maintain_node_health": false,
  "uid_pool": [
    [
      4000,
      4019
    ]
  ],
  "default_iallocator": "hail",
  "default_iallocator_params": {},
  "hidden_os": [],
  "blacklisted_os": [],
  "install_image": "",
  "instance_communication_network": "",
  "zeroing_image": "",
  "compression_tools": [
    "gzip",
    "gzip-fast",
    "gzip-slow"
  ],
  "enabled_user_shutdown": false,
  "modify_ssh_setup": true,
  "ssh_key_type": "rsa",
  "ssh_key_bits": 2048
}
$ gnt-cluster list-tags --output=json
[]
$ gnt-cluster queue --output=json info
{
  "drain_flag": false
}
$ gnt-cluster version --output=json
{
  "software_version": "3.1.0",
  "protocol_version": 3010000,
  "config_version": 3010000,
  "os_api_version": 20,
  "export_version": 0,
  "vcs_version": "(none)"
}
$ gnt-cluster watcher --output=json info
{
  "watcher_pause": null
}
$ gnt-cluster modify --submit --print-jobid --priority=low --dry-run -f --enabled-disk-templates=drbd,plain,file --ipolicy-disk-templates=drbd,plain -m aa:00:01 --master-netdev=br0 --use-external-mip-script=yes --prealloc-wipe-disks=yes --user-shutdown=yes -I hail --node-parameters=spindle_count=4 --ipolicy-spindle-ratio=16 --max-running-jobs=40 --modify-etc-hosts=no --drbd-usermode-helper=/bin/true --file-storage-dir=/srv/files --shared-file-storage-dir=/srv/shared
1003
! JobID: 1003
> OP_CLUSTER_SET_PARAMS {"default_iallocator":"hail","drbd_helper":"/bin/true","dry_run":true,"enabled_disk_templates":["drbd","plain","file"],"enabled_user_shutdown":true,"file_storage_dir":"/srv/files","force":true,"ipolicy":{"spindle-ratio":16.0,"disk-templates":["drbd","plain"]},"mac_prefix":"aa:00:01","master_netdev":"br0","max_running_jobs":40,"modify_etc_hosts":false,"ndparams":{"spindle_count":4},"prealloc_wipe_disks":true,"priority":10,"shared_file_storage_dir":"/srv/shared","use_external_mip_script":true}
$ gnt-cluster redist-conf --submit --print-jobid --priority=high --dry-run
1004
! JobID: 1004
> OP_CLUSTER_REDIST_CONF {"dry_run":true,"priority":-10}
$ gnt-cluster rapi-token --priority=high remove ci
> OP_CLUSTER_RAPI_TOKEN_REMOVE {"name":"ci","priority":-10}
$ gnt-cluster rename -f --dry-run 127.0.0.1
> OP_CLUSTER_RENAME {"dry_run":true,"name":"127.0.0.1"}
$ gnt-cluster repair-disk-sizes --dry-run --priority=high web
> OP_CLUSTER_REPAIR_DISK_SIZES {"dry_run":true,"instances":["web"],"priority":-10}
% result OP_TAGS_SEARCH [["/cluster", "fast"]]
$ gnt-cluster search-tags --priority=high --output=json fast
[
  {
    "path": "/cluster",
    "tag": "fast"
  }
]
> OP_TAGS_SEARCH {"pattern":"fast","priority":-10}
$ gnt-cluster verify --debug-simulate-errors --dry-run --priority=high --verify-ssh-clutter
> OP_CLUSTER_VERIFY {"debug_simulate_errors":true,"dry_run":true,"priority":-10,"verify_clutter":true}
% result OP_CLUSTER_VERIFY {"jobs": []}
$ gnt-cluster verify --debug-simulate-errors --no-hv-param-assessment --priority=high --verify-ssh-clutter
> OP_CLUSTER_VERIFY {"debug_simulate_errors":true,"priority":-10,"skip_checks":["hvparam_assessment"],"verify_clutter":true}
% forget OP_CLUSTER_VERIFY
% result OP_CLUSTER_VERIFY_DISKS {"jobs": []}
$ gnt-cluster verify-disks --priority=high
> OP_CLUSTER_VERIFY_DISKS {"priority":-10}

$ gnt-cluster capacity -t plain --limit=2 --minimum-memory=64
Node group default: 2 nodes, 1 instance
  more instances of 128 MiB memory (64 MiB at least), 1024 MiB disk and 1 CPU(s), plain: at least 2
  any one node may fail: all running instances could run elsewhere

# gnt-debug

$ gnt-debug locks -v
Name                     Mode      Owner           Pending
cluster/BGL              shared    job1001         -
instance/web.example.org exclusive job1001,job1002 exclusive:job1003,job1004
node/node1.example.org   -         -               -
$ gnt-debug delay -i -l 0.5
> OP_TEST_DELAY {"duration":0.5,"interruptible":true}
% result OP_TEST_ALLOCATOR "{}"
$ gnt-debug iallocator --dir=in --mode=allocate --memory=2g -p 3 --spindle-use=2 --priority=high --dry-run -I hail --disks=1g new
{}
> OP_TEST_ALLOCATOR {"count":2,"direction":"in","disks":[{"size":1024,"mode":"rw"}],"dry_run":true,"evac_mode":"all","iallocator":"hail","instances":["new"],"memory":2048,"mode":"allocate","name":"new","nics":[{"mac":"00:11:22:33:44:55"}],"priority":-10,"spindle_use":2,"vcpus":3}
$ gnt-debug iallocator --dir=in --mode=node-evacuate --evac-mode=primary-only web
{}
> OP_TEST_ALLOCATOR {"count":2,"direction":"in","disks":[{"size":4096,"mode":"rw"},{"size":4096,"mode":"rw"}],"evac_mode":"primary-only","instances":["web"],"memory":128,"mode":"node-evacuate","name":"web","nics":[{"mac":"00:11:22:33:44:55"}],"vcpus":1}
% file job.json [{"OP_ID": "OP_TEST_DELAY", "duration": 0.5}]
$ gnt-debug submit-job --dry-run --priority=high job.json
Waiting for job 1015 for file job.json/0 ...
> OP_TEST_DELAY {"dry_run":true,"duration":0.5,"priority":-10}

# gnt-filter

$ gnt-filter list --separator=: -v
UUID:Watermark:Priority:Predicates:Action:ReasonTrail
$ gnt-filter list-fields --no-headers --separator=: action priority
action:Custom:Action:What happens to such a job
priority:Custom:Priority:Rules with lower numbers come first
$ gnt-filter list-fields --output=json action
[
  {
    "name": "action",
    "title": "Action",
    "kind": "other",
    "doc": "What happens to such a job"
  }
]
% call ReplaceFilter "00000000-aaaa-4bbb-8ccc-000000000000"
$ gnt-filter replace --priority=5 --predicates='[["jobid", [">", "id", 10]]]' --action=PAUSE 00000011-aaaa-4bbb-8ccc-000000000011
00000000-aaaa-4bbb-8ccc-000000000000
< ["ReplaceFilter","00000011-aaaa-4bbb-8ccc-000000000011",5,[["jobid",[">","id",10]]],"PAUSE",[],null]

# gnt-group

$ gnt-group add --submit --print-jobid --priority=high --dry-run --ipolicy-disk-templates=drbd,plain --ipolicy-vcpu-ratio=4 --ipolicy-spindle-ratio=16 --ipolicy-memory-ratio=1.5 --ipolicy-max-node-failures=2 -D drbd:metavg=meta --hypervisor-state=kvm:cpu_total=8 --disk-state=lvm/xenvg:disk_total=1024 --ipolicy-bounds-specs=min:cpu-count=1,disk-count=1,disk-size=1g,memory-size=128,nic-count=0,spindle-use=1/max:cpu-count=8,disk-count=16,disk-size=1t,memory-size=32g,nic-count=8,spindle-use=12 rack2
1016
! JobID: 1016
> OP_GROUP_ADD {"disk_state":{"lvm":{"xenvg":{"disk_total":1024}}},"diskparams":{"drbd":{"metavg":"meta"}},"dry_run":true,"group_name":"rack2","hv_state":{"kvm":{"cpu_total":8}},"ipolicy":{"minmax":[{"min":{"cpu-count":1,"disk-count":1,"disk-size":1024,"memory-size":128,"nic-count":0,"spindle-use":1},"max":{"cpu-count":8,"disk-count":16,"disk-size":1048576,"memory-size":32768,"nic-count":8,"spindle-use":12}}],"vcpu-ratio":4.0,"spindle-ratio":16.0,"memory-ratio":1.5,"max-node-failures":2.0,"disk-templates":["drbd","plain"]},"priority":-10}
$ gnt-group add-tags --submit --print-jobid --priority=high --from=tags default
1017
! JobID: 1017
> OP_TAGS_SET {"kind":"nodegroup","name":"default","priority":-10,"tags":["one","two"]}
$ gnt-group remove-tags --submit --print-jobid --priority=high --from=tags default
1018
! JobID: 1018
> OP_TAGS_DEL {"kind":"nodegroup","name":"default","priority":-10,"tags":["one","two"]}
$ gnt-group list-tags --output=json default
[]
$ gnt-group assign-nodes --submit --print-jobid --priority=high --dry-run empty node3
1019
! JobID: 1019
> OP_GROUP_ASSIGN_NODES {"dry_run":true,"group_name":"empty","nodes":["node3"],"priority":-10}
$ gnt-group evacuate --submit --print-jobid default
1020
! JobID: 1020
> OP_GROUP_EVACUATE {"group_name":"default"}
$ gnt-group info --output=json default
[
  {
    "name": "default",
    "ndparams": {
      "oob_program": "",
      "spindle_count": 1,
      "exclusive_storage": false,
      "ovs": false,
      "ovs_name": "switch1",
      "ovs_link": "",
      "ssh_port": 22,
      "cpu_speed": 1.0
    },
    "custom_ndparams": {},
    "diskparams": {
      "diskless": {},
      "file": {},
      "sharedfile": {},
      "plain": {
        "stripes": 1
      },
      "blockdev": {},
      "drbd": {
        "resync-rate": 61440,
        "data-stripes": 1,
        "meta-stripes": 1,
        "disk-barriers": "n",
        "meta-barriers": false,
        "metavg": "xenvg",
        "disk-custom": "",
        "net-custom": "",
        "protocol": "C",
        "dynamic-resync": false,
        "c-plan-ahead": 20,
        "c-fill-target": 0,
        "c-delay-target": 1,
        "c-max-rate": 61440,
        "c-min-rate": 4096
      },
      "rbd": {
        "pool": "rbd",
        "access": "kernelspace"
      },
      "ext": {
        "access": "kernelspace"
      },
      "gluster": {
        "access": "kernelspace",
        "host": "127.0.0.1",
        "port": 24007,
        "volume": "gv0"
      }
    },
    "custom_diskparams": {},
    "ipolicy": {
      "minmax": [
        {
          "min": {
            "memory-size": 128,
            "cpu-count": 1,
            "disk-count": 1,
            "disk-size": 1024,
            "nic-count": 1,
            "spindle-use": 1
          },
          "max": {
            "memory-size": 32768,
            "cpu-count": 8,
            "disk-count": 16,
            "disk-size": 1048576,
            "nic-count": 8,
            "spindle-use": 12
          }
        }
      ],
      "std": {
        "memory-size": 128,
        "cpu-count": 1,
        "disk-count": 1,
        "disk-size": 1024,
        "nic-count": 1,
        "spindle-use": 1
      },
      "vcpu-ratio": 4.0,
      "spindle-ratio": 32.0,
      "disk-templates": [
        "drbd",
        "plain"
      ]
    },
    "custom_ipolicy": {}
  }
]
$ gnt-group list --no-headers --separator=: -v
default:2:1:preferred:cpu_speed=1.0, exclusive_storage=False, oob_program=, ovs=False, ovs_link=, ovs_name=switch1, spindle_count=1, ssh_port=22
$ gnt-group list -F 'node_cnt == 0'
Group Nodes Instances AllocPolicy NDParams
$ gnt-group list-fields --no-headers --separator=: name
name:Text:Group:Group name
$ gnt-group list-fields --output=json name
[
  {
    "name": "name",
    "title": "Group",
    "kind": "text",
    "doc": "Group name"
  }
]
$ gnt-group modify --submit --print-jobid --priority=high --dry-run --alloc-policy=last_resort --ipolicy-spindle-ratio=16 --ipolicy-memory-ratio=1.5 --ipolicy-max-node-failures=2 -D drbd:metavg=meta --hypervisor-state=kvm:cpu_total=8 --disk-state=lvm/xenvg:disk_total=1024 default
1021
! JobID: 1021
> OP_GROUP_SET_PARAMS {"alloc_policy":"last_resort","disk_state":{"lvm":{"xenvg":{"disk_total":1024}}},"diskparams":{"drbd":{"metavg":"meta"}},"dry_run":true,"group_name":"default","hv_state":{"kvm":{"cpu_total":8}},"ipolicy":{"spindle-ratio":16.0,"memory-ratio":1.5,"max-node-failures":2.0},"priority":-10}
$ gnt-group remove --submit --print-jobid --priority=high --dry-run empty
1022
! JobID: 1022
> OP_GROUP_REMOVE {"dry_run":true,"group_name":"empty","priority":-10}
$ gnt-group rename --submit --print-jobid --priority=high --dry-run empty full
1023
! JobID: 1023
> OP_GROUP_RENAME {"dry_run":true,"group_name":"empty","new_name":"full","priority":-10}

# gnt-instance

% change nodes 00000003-aaaa-4bbb-8ccc-000000000003 {"tags": ["fast"]}
% change instances 00000005-aaaa-4bbb-8ccc-000000000005 {"tags": ["quick"]}

$ gnt-instance activate-disks --submit --print-jobid --priority=high --ignore-size --wait-for-sync web
1024
! JobID: 1024
> OP_INSTANCE_ACTIVATE_DISKS {"ignore_size":true,"instance_name":"web","priority":-10,"wait_for_sync":true}
% result OP_INSTANCE_ACTIVATE_DISKS [["node1.example.org", "disk/0", "/dev/drbd0"]]
$ gnt-instance activate-disks --behind=node1 -f web
node1.example.org:disk/0:/dev/drbd0
> OP_INSTANCE_ACTIVATE_DISKS {"behind":"node1","instance_name":"web"}
$ gnt-instance deactivate-disks --submit --print-jobid --priority=high --dry-run -f web
1026
! JobID: 1026
> OP_INSTANCE_DEACTIVATE_DISKS {"dry_run":true,"force":true,"instance_name":"web","priority":-10}
$ gnt-instance add --print-jobid --submit --priority=high -t file --disk=0:size=1g -o debian+minimal --force-variant --no-install -O a=1 --os-parameters-private=b=2 --os-parameters-secret=c=3 --file-storage-dir=sub --file-driver=loop --ip-check --name-check --no-conflicts-check --no-wait-for-sync --ignore-ipolicy -g default --helper-startup-timeout=60 --helper-shutdown-timeout=900 new
1027
! JobID: 1027
> OP_INSTANCE_CREATE {"conflicts_check":false,"disk_template":"file","disks":[{"size":1024}],"file_driver":"loop","file_storage_dir":"sub","force_variant":true,"group_name":"default","helper_shutdown_timeout":900,"helper_startup_timeout":60,"ignore_ipolicy":true,"instance_name":"new","ip_check":true,"mode":"create","name_check":true,"nics":[{}],"no_install":true,"os_type":"debian+minimal","osparams":{"a":"1"},"osparams_private":{"b":"2"},"osparams_secret":{"c":"3"},"priority":-10,"start":false,"wait_for_sync":false}
$ gnt-instance add-tags --submit --print-jobid --priority=high --from=tags web
1028
! JobID: 1028
> OP_TAGS_SET {"kind":"instance","name":"web","priority":-10,"tags":["one","two"]}
$ gnt-instance remove-tags --submit --print-jobid --priority=high --from=tags web
1029
! JobID: 1029
> OP_TAGS_DEL {"kind":"instance","name":"web","priority":-10,"tags":["one","two"]}
$ gnt-instance list-tags --output=json web.example.org
[
  "quick"
]
% file instances.json [{"instance_name": "new", "disk_template": "diskless", "mode": "create", "pnode": "node1"}]
$ gnt-instance batch-create --print-jobid --submit --priority=high instances.json
1030
! JobID: 1030
> OP_INSTANCE_MULTI_ALLOC {"instances":[{"OP_ID":"OP_INSTANCE_CREATE","mode":"create","disks":[],"nics":[{}],"instance_name":"new","disk_template":"diskless","pnode":"node1"}],"priority":-10}
$ gnt-instance change-group --submit --print-jobid --priority=high web
1031
! JobID: 1031
> OP_INSTANCE_CHANGE_GROUP {"instance_name":"web","priority":-10}
$ gnt-instance console --priority=high --show-cmd web
! Failure: command execution error:
! Console information for instance web.example.org is unavailable
= 1
$ gnt-instance failover -f --submit --print-jobid --priority=high --dry-run --ignore-consistency --shutdown-timeout=30 --ignore-ipolicy --cleanup web
! The disks on the other node may be out of date or incomplete; with
! --ignore-consistency they will be used anyway. Continue?
! No terminal to ask on; assuming 'n'.
= 1
$ gnt-instance grow-disk --submit --print-jobid --dry-run --priority=high web 0 1g
1032
! JobID: 1032
> OP_INSTANCE_GROW_DISK {"amount":1024,"disk":0,"dry_run":true,"instance_name":"web","priority":-10}
$ gnt-instance info -s --roman --priority=high web
No instances.
= 1
> OP_INSTANCE_QUERY_DATA {"instances":["web"],"priority":-10,"static":true}
$ gnt-instance info --output=json -s web
No instances.
= 1
> OP_INSTANCE_QUERY_DATA {"instances":["web"],"static":true}
$ gnt-instance list --no-headers -v --units=m -o name,disk_usage
web.example.org 10368
$ gnt-instance list --no-headers -o name -F 'name == "web.example.org"'
web.example.org
$ gnt-instance list-fields --no-headers --separator=: name
name:Text:Instance:Instance name
$ gnt-instance list-fields --output=json name
[
  {
    "name": "name",
    "title": "Instance",
    "kind": "text",
    "doc": "Instance name"
  }
]
$ gnt-instance migrate -f --submit --print-jobid --priority=high --dry-run --allow-failover --ignore-ipolicy --ignore-hvversions --no-runtime-changes web
1035
! JobID: 1035
> OP_INSTANCE_MIGRATE {"allow_failover":true,"allow_runtime_changes":false,"dry_run":true,"ignore_hvversions":true,"ignore_ipolicy":true,"instance_name":"web","priority":-10}
$ gnt-instance migrate -f --cleanup --keep=node1 -n node2 web
> OP_INSTANCE_MIGRATE {"cleanup":true,"instance_name":"web","keep_node":"node1","target_node":"node2"}
$ gnt-instance modify --submit --print-jobid --priority=high --dry-run -t file -n node2 --file-driver=loop --file-storage-dir=sub --no-wait-for-sync --ignore-ipolicy web
1037
! JobID: 1037
> OP_INSTANCE_SET_PARAMS {"disk_template":"file","dry_run":true,"file_driver":"loop","file_storage_dir":"sub","ignore_ipolicy":true,"instance_name":"web","priority":-10,"remote_node":"node2","wait_for_sync":false}
$ gnt-instance modify --no-conflicts-check -o debian+minimal --force-variant -O a=1 --os-parameters-private=b=2 web
> OP_INSTANCE_SET_PARAMS {"conflicts_check":false,"force_variant":true,"instance_name":"web","os_name":"debian+minimal","osparams":{"a":"1"},"osparams_private":{"b":"2"}}
$ gnt-instance modify --new-primary=node2 web
> OP_INSTANCE_SET_PARAMS {"instance_name":"web","pnode":"node2"}
$ gnt-instance modify -t ext -e provider=san,tier=fast web
> OP_INSTANCE_SET_PARAMS {"disk_template":"ext","ext_params":{"provider":"san","tier":"fast"},"instance_name":"web"}
$ gnt-instance shutdown --dry-run --priority=high --print-jobid --submit -f --ignore-offline --no-remember web
1041: web.example.org
> OP_INSTANCE_SHUTDOWN {"dry_run":true,"force":true,"ignore_offline_nodes":true,"instance_name":"web.example.org","no_remember":true,"priority":-10}
$ gnt-instance startup --instance --force-multiple web
Waiting for job 1042 for web.example.org ...
> OP_INSTANCE_STARTUP {"instance_name":"web.example.org"}
$ gnt-instance startup --all --force-multiple
Submitted jobs 1043
Waiting for job 1043 for web.example.org ...
> OP_INSTANCE_STARTUP {"instance_name":"web.example.org"}
$ gnt-instance startup --node --force-multiple node1
Submitted jobs 1044
Waiting for job 1044 for web.example.org ...
> OP_INSTANCE_STARTUP {"instance_name":"web.example.org"}
$ gnt-instance startup --primary --force-multiple node1
Submitted jobs 1045
Waiting for job 1045 for web.example.org ...
> OP_INSTANCE_STARTUP {"instance_name":"web.example.org"}
$ gnt-instance startup --secondary --force-multiple node2
Submitted jobs 1046
Waiting for job 1046 for web.example.org ...
> OP_INSTANCE_STARTUP {"instance_name":"web.example.org"}
$ gnt-instance startup --tags --force-multiple quick
Submitted jobs 1047
Waiting for job 1047 for web.example.org ...
> OP_INSTANCE_STARTUP {"instance_name":"web.example.org"}
$ gnt-instance startup --node-tags --force-multiple fast
Submitted jobs 1048
Waiting for job 1048 for web.example.org ...
> OP_INSTANCE_STARTUP {"instance_name":"web.example.org"}
$ gnt-instance startup --pri-node-tags --force-multiple fast
Submitted jobs 1049
Waiting for job 1049 for web.example.org ...
> OP_INSTANCE_STARTUP {"instance_name":"web.example.org"}
% change nodes 00000004-aaaa-4bbb-8ccc-000000000004 {"tags": ["fast"]}
$ gnt-instance startup --sec-node-tags --force-multiple fast
Submitted jobs 1050
Waiting for job 1050 for web.example.org ...
> OP_INSTANCE_STARTUP {"instance_name":"web.example.org"}
$ gnt-instance shutdown --instance --force-multiple web
Waiting for job 1051 for web.example.org ...
> OP_INSTANCE_SHUTDOWN {"instance_name":"web.example.org"}
$ gnt-instance shutdown --all --force-multiple
Submitted jobs 1052
Waiting for job 1052 for web.example.org ...
> OP_INSTANCE_SHUTDOWN {"instance_name":"web.example.org"}
$ gnt-instance shutdown --node --force-multiple node1
Submitted jobs 1053
Waiting for job 1053 for web.example.org ...
> OP_INSTANCE_SHUTDOWN {"instance_name":"web.example.org"}
$ gnt-instance shutdown --primary --force-multiple node1
Submitted jobs 1054
Waiting for job 1054 for web.example.org ...
> OP_INSTANCE_SHUTDOWN {"instance_name":"web.example.org"}
$ gnt-instance shutdown --secondary --force-multiple node2
Submitted jobs 1055
Waiting for job 1055 for web.example.org ...
> OP_INSTANCE_SHUTDOWN {"instance_name":"web.example.org"}
$ gnt-instance shutdown --tags --force-multiple quick
Submitted jobs 1056
Waiting for job 1056 for web.example.org ...
> OP_INSTANCE_SHUTDOWN {"instance_name":"web.example.org"}
$ gnt-instance shutdown --node-tags --force-multiple fast
Submitted jobs 1057
Waiting for job 1057 for web.example.org ...
> OP_INSTANCE_SHUTDOWN {"instance_name":"web.example.org"}
$ gnt-instance shutdown --pri-node-tags --force-multiple fast
Submitted jobs 1058
Waiting for job 1058 for web.example.org ...
> OP_INSTANCE_SHUTDOWN {"instance_name":"web.example.org"}
$ gnt-instance shutdown --sec-node-tags --force-multiple fast
Submitted jobs 1059
Waiting for job 1059 for web.example.org ...
> OP_INSTANCE_SHUTDOWN {"instance_name":"web.example.org"}
$ gnt-instance reboot --instance --force-multiple web
Waiting for job 1060 for web.example.org ...
> OP_INSTANCE_REBOOT {"instance_name":"web.example.org","reboot_type":"hard"}
$ gnt-instance reboot --all --force-multiple
Submitted jobs 1061
Waiting for job 1061 for web.example.org ...
> OP_INSTANCE_REBOOT {"instance_name":"web.example.org","reboot_type":"hard"}
$ gnt-instance reboot --node --force-multiple node1
Submitted jobs 1062
Waiting for job 1062 for web.example.org ...
> OP_INSTANCE_REBOOT {"instance_name":"web.example.org","reboot_type":"hard"}
$ gnt-instance reboot --primary --force-multiple node1
Submitted jobs 1063
Waiting for job 1063 for web.example.org ...
> OP_INSTANCE_REBOOT {"instance_name":"web.example.org","reboot_type":"hard"}
$ gnt-instance reboot --secondary --force-multiple node2
Submitted jobs 1064
Waiting for job 1064 for web.example.org ...
> OP_INSTANCE_REBOOT {"instance_name":"web.example.org","reboot_type":"hard"}
$ gnt-instance reboot --tags --force-multiple quick
Submitted jobs 1065
Waiting for job 1065 for web.example.org ...
> OP_INSTANCE_REBOOT {"instance_name":"web.example.org","reboot_type":"hard"}
$ gnt-instance reboot --node-tags --force-multiple fast
Submitted jobs 1066
Waiting for job 1066 for web.example.org ...
> OP_INSTANCE_REBOOT {"instance_name":"web.example.org","reboot_type":"hard"}
$ gnt-instance reboot --pri-node-tags --force-multiple fast
Submitted jobs 1067
Waiting for job 1067 for web.example.org ...
> OP_INSTANCE_REBOOT {"instance_name":"web.example.org","reboot_type":"hard"}
$ gnt-instance reboot --sec-node-tags --force-multiple fast
Submitted jobs 1068
Waiting for job 1068 for web.example.org ...
> OP_INSTANCE_REBOOT {"instance_name":"web.example.org","reboot_type":"hard"}
$ gnt-instance reinstall --instance --force-multiple -f web
Waiting for job 1069 for web.example.org ...
> OP_INSTANCE_REINSTALL {"instance_name":"web.example.org"}
$ gnt-instance reinstall --all --force-multiple -f
Submitted jobs 1070
Waiting for job 1070 for web.example.org ...
> OP_INSTANCE_REINSTALL {"instance_name":"web.example.org"}
$ gnt-instance reinstall --node --force-multiple -f node1
Submitted jobs 1071
Waiting for job 1071 for web.example.org ...
> OP_INSTANCE_REINSTALL {"instance_name":"web.example.org"}
$ gnt-instance reinstall --primary --force-multiple -f node1
Submitted jobs 1072
Waiting for job 1072 for web.example.org ...
> OP_INSTANCE_REINSTALL {"instance_name":"web.example.org"}
$ gnt-instance reinstall --secondary --force-multiple -f node2
Submitted jobs 1073
Waiting for job 1073 for web.example.org ...
> OP_INSTANCE_REINSTALL {"instance_name":"web.example.org"}
$ gnt-instance reinstall --tags --force-multiple -f quick
Submitted jobs 1074
Waiting for job 1074 for web.example.org ...
> OP_INSTANCE_REINSTALL {"instance_name":"web.example.org"}
$ gnt-instance reinstall --node-tags --force-multiple -f fast
Submitted jobs 1075
Waiting for job 1075 for web.example.org ...
> OP_INSTANCE_REINSTALL {"instance_name":"web.example.org"}
$ gnt-instance reinstall --pri-node-tags --force-multiple -f fast
Submitted jobs 1076
Waiting for job 1076 for web.example.org ...
> OP_INSTANCE_REINSTALL {"instance_name":"web.example.org"}
$ gnt-instance reinstall --sec-node-tags --force-multiple -f fast
Submitted jobs 1077
Waiting for job 1077 for web.example.org ...
> OP_INSTANCE_REINSTALL {"instance_name":"web.example.org"}
$ gnt-instance startup --submit --print-jobid --dry-run --priority=high -f --ignore-offline --no-remember web
1078: web.example.org
> OP_INSTANCE_STARTUP {"dry_run":true,"force":true,"ignore_offline_nodes":true,"instance_name":"web.example.org","no_remember":true,"priority":-10}
$ gnt-instance reboot --submit --print-jobid --dry-run --priority=high --ignore-secondaries --shutdown-timeout=20 web
1079: web.example.org
> OP_INSTANCE_REBOOT {"dry_run":true,"ignore_secondaries":true,"instance_name":"web.example.org","priority":-10,"reboot_type":"hard","shutdown_timeout":20}
$ gnt-instance reinstall -f --submit --print-jobid --dry-run --priority=high -o debian+minimal --force-variant -O a=1 --os-parameters-private=b=2 --os-parameters-secret=c=3 web
1080: web.example.org
> OP_INSTANCE_REINSTALL {"dry_run":true,"force_variant":true,"instance_name":"web.example.org","os_type":"debian+minimal","osparams":{"a":"1"},"osparams_private":{"b":"2"},"osparams_secret":{"c":"3"},"priority":-10}
$ gnt-instance recreate-disks --submit --print-jobid --dry-run --priority=high web
1081
! JobID: 1081
> OP_INSTANCE_RECREATE_DISKS {"dry_run":true,"instance_name":"web","priority":-10}
$ gnt-instance remove -f --submit --print-jobid --dry-run --priority=high --shutdown-timeout=20 --ignore-failures web
1082
! JobID: 1082
> OP_INSTANCE_REMOVE {"dry_run":true,"ignore_failures":true,"instance_name":"web","priority":-10,"shutdown_timeout":20}
$ gnt-instance rename --submit --print-jobid --dry-run --priority=high --ip-check --name-check web other
1083
! JobID: 1083
> OP_INSTANCE_RENAME {"dry_run":true,"instance_name":"web","ip_check":true,"name_check":true,"new_name":"other","priority":-10}
$ gnt-instance replace-disks --submit --print-jobid --dry-run -p --priority=high web
1084
! JobID: 1084
> OP_INSTANCE_REPLACE_DISKS {"dry_run":true,"instance_name":"web","mode":"replace_on_primary","priority":-10}

# gnt-job

% status OP_TEST_DELAY queued
$ gnt-debug delay --submit 1
! JobID: 1085
> OP_TEST_DELAY {"duration":1.0,"no_locks":false}
$ gnt-job cancel -f --pending
Job 1085 canceled
< ["CancelManyJobs",[1085],false]
$ gnt-job change-priority -f --priority=high --pending
Priorities of pending opcodes for job 1085 have been changed to -10
< ["ChangeJobPriority",1085,-10]
$ gnt-job cancel -f --queued
Job 1085 canceled
< ["CancelManyJobs",[1085],false]
$ gnt-job change-priority -f --priority=high --queued
Priorities of pending opcodes for job 1085 have been changed to -10
< ["ChangeJobPriority",1085,-10]
% status OP_TEST_DELAY waiting
$ gnt-debug delay --submit 1
! JobID: 1086
> OP_TEST_DELAY {"duration":1.0,"no_locks":false}
$ gnt-job cancel -f --waiting
Job 1086 canceled
< ["CancelManyJobs",[1086],false]
$ gnt-job change-priority -f --priority=high --waiting
Priorities of pending opcodes for job 1086 have been changed to -10
< ["ChangeJobPriority",1086,-10]
% forget OP_TEST_DELAY
$ gnt-job list --pending --no-headers -o id,status
1085 queued
1086 waiting
$ gnt-job list --finished --no-headers -o id,status 1001 1002
1001 success
1002 success
$ gnt-job list-fields --output=json id
[
  {
    "name": "id",
    "title": "ID",
    "kind": "number",
    "doc": "Job ID"
  }
]

# gnt-network

$ gnt-network add --network=192.0.2.0/28 --dry-run --priority=high lan2
> OP_NETWORK_ADD {"dry_run":true,"network":"192.0.2.0/28","network_name":"lan2","priority":-10}
$ gnt-network add-tags --submit --print-jobid --priority=high --from=tags lan
1088
! JobID: 1088
> OP_TAGS_SET {"kind":"network","name":"lan","priority":-10,"tags":["one","two"]}
$ gnt-network remove-tags --submit --print-jobid --priority=high --from=tags lan
1089
! JobID: 1089
> OP_TAGS_DEL {"kind":"network","name":"lan","priority":-10,"tags":["one","two"]}
% put network {"uuid": "00000021-aaaa-4bbb-8ccc-000000000021", "name": "lan", "network": "192.0.2.0/25", "gateway": "192.0.2.1", "network6": "2001:db8::/64", "gateway6": "2001:db8::1", "mac_prefix": "aa:00:01", "ext_reservations": "11000110000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000001", "reservations": "00000000010000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000", "tags": ["inside", "office"], "serial_no": 3}
$ gnt-network list-tags --output=json lan
[
  "inside",
  "office"
]
$ gnt-network connect --priority=high lan default
> OP_NETWORK_CONNECT {"group_name":"default","network_link":"xen-br0","network_mode":"bridged","network_name":"lan","priority":-10}
$ gnt-network list -v
Network Subnet       Gateway   MacPrefix GroupList Tags
lan     192.0.2.0/25 192.0.2.1 aa:00:01            inside,office
$ gnt-network list-fields --no-headers --separator=: name
name:Text:Network:Network name
$ gnt-network list-fields --output=json name
[
  {
    "name": "name",
    "title": "Network",
    "kind": "text",
    "doc": "Network name"
  }
]
$ gnt-network modify --submit --print-jobid --priority=high --gateway=none lan
1091
! JobID: 1091
> OP_NETWORK_SET_PARAMS {"gateway":"none","network_name":"lan","priority":-10}
$ gnt-network remove --submit --print-jobid --dry-run --priority=high lan
1092
! JobID: 1092
> OP_NETWORK_REMOVE {"dry_run":true,"network_name":"lan","priority":-10}
$ gnt-network rename --submit --print-jobid --dry-run --priority=high lan wan
1093
! JobID: 1093
> OP_NETWORK_RENAME {"dry_run":true,"network_name":"lan","new_name":"wan","priority":-10}

# gnt-node

$ gnt-node add --no-node-setup --priority=high -s 127.0.0.9 -g default --master-capable=no --vm-capable=no --node-parameters=spindle_count=2 --hypervisor-state=kvm:cpu_total=8 --disk-state=lvm/xenvg:disk_total=1024 localhost
The node is expected to be set up already (--no-node-setup).
> OP_NODE_ADD {"disk_state":{"lvm":{"xenvg":{"disk_total":1024}}},"group":"default","hv_state":{"kvm":{"cpu_total":8}},"master_capable":false,"ndparams":{"spindle_count":2},"node_name":"localhost","priority":-10,"secondary_ip":"127.0.0.9","vm_capable":false}
$ gnt-node add-tags --submit --print-jobid --priority=high --from=tags node1
1095
! JobID: 1095
> OP_TAGS_SET {"kind":"node","name":"node1","priority":-10,"tags":["one","two"]}
$ gnt-node remove-tags --submit --print-jobid --priority=high --from=tags node1
1096
! JobID: 1096
> OP_TAGS_DEL {"kind":"node","name":"node1","priority":-10,"tags":["one","two"]}
$ gnt-node list-tags --output=json node1.example.org
[
  "fast"
]
$ gnt-node evacuate -f --submit --print-jobid --priority=high -n node1 -s node2
1097
! JobID: 1097
> OP_NODE_EVACUATE {"mode":"secondary-only","node_name":"node2.example.org","priority":-10,"remote_node":"node1"}
$ gnt-node failover -f --priority=high node1
Submitted jobs 1098
Waiting for job 1098 for web.example.org ...
All 1 instance(s) failed over successfully.
> OP_INSTANCE_FAILOVER {"instance_name":"web.example.org","priority":-10,"target_node":"node2.example.org"}
% result OP_OOB_COMMAND [[[0, "node1.example.org"], [0, [["fan", "OK"]]]]]
$ gnt-node health --no-headers --separator=: --priority=high node1
node1.example.org:fan=OK
> OP_OOB_COMMAND {"command":"health","node_names":["node1"],"priority":-10}
$ gnt-node info --output=json node1
[
  {
    "name": "node1.example.org",
    "pip": "192.0.2.11",
    "sip": "198.51.100.11",
    "master_candidate": true,
    "drained": false,
    "offline": false,
    "master_capable": true,
    "vm_capable": true,
    "powered": null,
    "pinst_list": [
      "web.example.org"
    ],
    "sinst_list": [],
    "ndparams": {
      "oob_program": "",
      "spindle_count": 1,
      "exclusive_storage": false,
      "ovs": false,
      "ovs_name": "switch1",
      "ovs_link": "",
      "ssh_port": 22,
      "cpu_speed": 1.0
    },
    "custom_ndparams": {},
    "hv_state": null,
    "disk_state": null
  }
]
$ gnt-node list-fields --no-headers --separator=: name
name:Text:Node:Node name
$ gnt-node list-fields --output=json name
[
  {
    "name": "name",
    "title": "Node",
    "kind": "text",
    "doc": "Node name"
  }
]
% result OP_NODE_QUERY_STORAGE [["node1.example.org", 102400.0]]
$ gnt-node list-storage --no-headers --separator=: --priority=high --units=m -o node,size node1
node1.example.org:102400
> OP_NODE_QUERY_STORAGE {"nodes":["node1"],"output_fields":["node","size"],"priority":-10}
$ gnt-node migrate -f --submit --print-jobid --priority=high --ignore-ipolicy --no-runtime-changes node1
1101
! JobID: 1101
> OP_NODE_MIGRATE {"allow_runtime_changes":false,"ignore_ipolicy":true,"node_name":"node1.example.org","priority":-10}
$ gnt-node modify --submit --print-jobid --priority=high -C yes --master-capable=yes --vm-capable=yes -s 192.0.2.1 --hypervisor-state=kvm:cpu_total=8 --disk-state=lvm/xenvg:disk_total=1024 node2
1102
! JobID: 1102
> OP_NODE_SET_PARAMS {"disk_state":{"lvm":{"xenvg":{"disk_total":1024}}},"hv_state":{"kvm":{"cpu_total":8}},"master_candidate":true,"master_capable":true,"node_name":"node2","priority":-10,"secondary_ip":"192.0.2.1","vm_capable":true}
$ gnt-node modify-storage --submit --print-jobid --dry-run --priority=high --allocatable=no node1 lvm-pv /dev/sdb
1103
! JobID: 1103
> OP_NODE_MODIFY_STORAGE {"changes":{"allocatable":false},"dry_run":true,"name":"/dev/sdb","node_name":"node1","priority":-10,"storage_type":"lvm-pv"}
$ gnt-node repair-storage --submit --print-jobid --dry-run --priority=high node1 lvm-vg xenvg
1104
! JobID: 1104
> OP_REPAIR_NODE_STORAGE {"dry_run":true,"name":"xenvg","node_name":"node1","priority":-10,"storage_type":"lvm-vg"}
% forget OP_OOB_COMMAND
% result OP_OOB_COMMAND [[[0, "node2.example.org"], [0, null]]]
$ gnt-node power --priority=high -f --ignore-status off node2
Node              Status $
node2.example.org invoked
> OP_OOB_COMMAND {"command":"power-off","ignore_status":true,"node_names":["node2"],"priority":-10}
$ gnt-node powercycle --submit --print-jobid --dry-run --priority=high -f --yes node2
1106
! JobID: 1106
> OP_NODE_POWERCYCLE {"dry_run":true,"force":true,"node_name":"node2","priority":-10}
$ gnt-node remove --dry-run --priority=high node2
> OP_NODE_REMOVE {"dry_run":true,"node_name":"node2","priority":-10}
$ gnt-node restricted-command --submit --print-jobid --priority=high show node1
1108
! JobID: 1108
> OP_RESTRICTED_COMMAND {"command":"show","nodes":["node1.example.org"],"priority":-10}
% result OP_NODE_QUERYVOLS [["node1.example.org", "/dev/sda", "xenvg", "x.disk0", "10240.00", "web.example.org"]]
$ gnt-node volumes --priority=high --units=m node1
Node              PhysDev  VG    Name     Size Instance       $
node1.example.org /dev/sda xenvg x.disk0 10240 web.example.org
> OP_NODE_QUERYVOLS {"nodes":["node1"],"output_fields":["node","phys","vg","name","size","instance"],"priority":-10}

# gnt-os and gnt-storage

% result OP_OS_DIAGNOSE []
$ gnt-os diagnose --priority=high --output=json
[]
> OP_OS_DIAGNOSE {"output_fields":["name","valid","variants","node_status","hidden","blacklisted","os_version"],"priority":-10}
$ gnt-os info --priority=high --output=json
[]
> OP_OS_DIAGNOSE {"output_fields":["name","valid","variants","parameters","api_versions","blacklisted","hidden","os_hvp","osparams","trusted","os_version"],"priority":-10}
$ gnt-os list --priority=high
Name
> OP_OS_DIAGNOSE {"output_fields":["name","variants"],"priority":-10}
$ gnt-os modify --submit --print-jobid --dry-run --priority=high --hidden=yes debian
1113
! JobID: 1113
> OP_CLUSTER_SET_PARAMS {"dry_run":true,"hidden_os":[["add","debian"]],"priority":-10}
% result OP_EXT_STORAGE_DIAGNOSE []
$ gnt-storage diagnose --priority=high
! No node has a storage provider; install one in the same directory of every node ('gnt-cluster info' shows the search path)
= 1
> OP_EXT_STORAGE_DIAGNOSE {"output_fields":["name","node_status","nodegroup_status"],"priority":-10}
$ gnt-storage info --priority=high
! No node has a storage provider; install one in the same directory of every node ('gnt-cluster info' shows the search path)
= 1
> OP_EXT_STORAGE_DIAGNOSE {"output_fields":["name","nodegroup_status","parameters"],"priority":-10}
