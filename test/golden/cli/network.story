# gnt-network

$ gnt-network list
Network Subnet Gateway MacPrefix GroupList Tags
$ gnt-network info
% put network {"uuid": "00000021-aaaa-4bbb-8ccc-000000000021", "name": "lan", "network": "192.0.2.0/25", "gateway": "192.0.2.1", "network6": "2001:db8::/64", "gateway6": "2001:db8::1", "mac_prefix": "aa:00:01", "ext_reservations": "11000110000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000001", "reservations": "00000000010000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000", "tags": ["inside", "office"], "serial_no": 3}
% put network {"uuid": "00000022-aaaa-4bbb-8ccc-000000000022", "name": "tiny", "network": "198.51.100.0/30", "ext_reservations": "1001", "reservations": "0000", "serial_no": 1}
% put nodegroup {"uuid": "00000002-aaaa-4bbb-8ccc-000000000002", "networks": {"00000021-aaaa-4bbb-8ccc-000000000021": {"mode": "bridged", "link": "br0", "vlan": ""}}}
% put instance {"uuid": "00000005-aaaa-4bbb-8ccc-000000000005", "nics": [{"mac": "aa:00:00:3f:12:c4", "nicparams": {}, "uuid": "00000009-aaaa-4bbb-8ccc-000000000009"}, {"mac": "aa:00:01:3f:12:c5", "ip": "192.0.2.9", "network": "00000021-aaaa-4bbb-8ccc-000000000021", "nicparams": {}, "uuid": "00000019-aaaa-4bbb-8ccc-000000000019"}]}
$ gnt-network list
Network Subnet          Gateway   MacPrefix GroupList                 Tags
lan     192.0.2.0/25    192.0.2.1 aa:00:01  default (bridged, br0, -) inside,office
tiny    198.51.100.0/30 -         -                                   $
$ gnt-network list -o name,free_count,inst_list,external_reservations
Network FreeCount InstanceList    ExternalReservations
lan           122 web.example.org 192.0.2.0, 192.0.2.1, 192.0.2.5, 192.0.2.6, 192.0.2.127
tiny            2                 198.51.100.0, 198.51.100.3
$ gnt-network list --no-headers --separator=: -o name,group_list,tags
lan:default (bridged, br0, -):inside,office
tiny::
$ gnt-network list -o name,nothing
Network nothing
lan     ??
tiny    ??
! Warning: Queried for unknown fields nothing
= 14
$ gnt-network list nothing
! Failure: prerequisites not met for this operation:
! error type: unknown_entity, error details:
! Network name nothing not found
= 1
$ gnt-network list-fields map group_list
Name       Type   Title     Description
map        Text   Map       One character per address: a dot is free, X is used
group_list Custom GroupList Connected groups with mode, link and VLAN
$ gnt-network info
Network name: lan
UUID: 00000021-aaaa-4bbb-8ccc-000000000021
Serial number: 3
  Subnet: 192.0.2.0/25
  Gateway: 192.0.2.1
  IPv6 Subnet: 2001:db8::/64
  IPv6 Gateway: 2001:db8::1
  Mac Prefix: aa:00:01
  Size: 128
  Free: 122 (95.31%)
  Usage map:
        0 XX...XX..X...................................................... 63
       64 ...............................................................X 127
         (X) used    (.) free
  externally reserved IPs:
    192.0.2.0, 192.0.2.1, 192.0.2.5, 192.0.2.6, 192.0.2.127
  connected to node groups:
    default (mode:bridged link:br0 vlan:-)
  used by 1 instances:
    web.example.org: 1:192.0.2.9
Network name: tiny
UUID: 00000022-aaaa-4bbb-8ccc-000000000022
Serial number: 1
  Subnet: 198.51.100.0/30
  Gateway: None
  IPv6 Subnet: None
  IPv6 Gateway: None
  Mac Prefix: None
  Size: 4
  Free: 2 (50.00%)
  Usage map:
        0 X..X                                                             63
         (X) used    (.) free
  externally reserved IPs:
    198.51.100.0, 198.51.100.3
  not connected to any node group
  not used by any instances
$ gnt-network info --output=json
[
  {
    "name": "lan",
    "uuid": "00000021-aaaa-4bbb-8ccc-000000000021",
    "serial_no": 3,
    "network": "192.0.2.0/25",
    "gateway": "192.0.2.1",
    "network6": "2001:db8::/64",
    "gateway6": "2001:db8::1",
    "mac_prefix": "aa:00:01",
    "free_count": 122,
    "reserved_count": 6,
    "map": "XX...XX..X.....................................................................................................................X",
    "external_reservations": "192.0.2.0, 192.0.2.1, 192.0.2.5, 192.0.2.6, 192.0.2.127",
    "group_list": [
      [
        "default",
        "bridged",
        "br0",
        "-"
      ]
    ],
    "instances": [
      {
        "name": "web.example.org",
        "ips": [
          [
            1,
            "192.0.2.9"
          ]
        ]
      }
    ]
  },
  {
    "name": "tiny",
    "uuid": "00000022-aaaa-4bbb-8ccc-000000000022",
    "serial_no": 1,
    "network": "198.51.100.0/30",
    "gateway": null,
    "network6": null,
    "gateway6": null,
    "mac_prefix": null,
    "free_count": 2,
    "reserved_count": 2,
    "map": "X..X",
    "external_reservations": "198.51.100.0, 198.51.100.3",
    "group_list": [],
    "instances": []
  }
]
$ gnt-network info nothing
! Warning: network 'nothing' does not exist and is left out
$ gnt-network info lan nothing tiny
Network name: lan
UUID: 00000021-aaaa-4bbb-8ccc-000000000021
Serial number: 3
  Subnet: 192.0.2.0/25
  Gateway: 192.0.2.1
  IPv6 Subnet: 2001:db8::/64
  IPv6 Gateway: 2001:db8::1
  Mac Prefix: aa:00:01
  Size: 128
  Free: 122 (95.31%)
  Usage map:
        0 XX...XX..X...................................................... 63
       64 ...............................................................X 127
         (X) used    (.) free
  externally reserved IPs:
    192.0.2.0, 192.0.2.1, 192.0.2.5, 192.0.2.6, 192.0.2.127
  connected to node groups:
    default (mode:bridged link:br0 vlan:-)
  used by 1 instances:
    web.example.org: 1:192.0.2.9
Network name: tiny
UUID: 00000022-aaaa-4bbb-8ccc-000000000022
Serial number: 1
  Subnet: 198.51.100.0/30
  Gateway: None
  IPv6 Subnet: None
  IPv6 Gateway: None
  Mac Prefix: None
  Size: 4
  Free: 2 (50.00%)
  Usage map:
        0 X..X                                                             63
         (X) used    (.) free
  externally reserved IPs:
    198.51.100.0, 198.51.100.3
  not connected to any node group
  not used by any instances
! Warning: network 'nothing' does not exist and is left out
$ gnt-network list-tags lan
inside
office
$ gnt-network add net
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! The --network option must be given
= 1
$ gnt-network add --network=192.0.2.0/24 net
> OP_NETWORK_ADD {"network":"192.0.2.0/24","network_name":"net"}
$ gnt-network add --network=192.0.2.0/24 --gateway=192.0.2.1 --network6=2001:db8::/64 --gateway6=2001:db8::1 --add-reserved-ips=192.0.2.5,192.0.2.6 --mac-prefix=aa:00:01 --no-conflicts-check --tags=a,b --submit --print-jobid net
1002
! JobID: 1002
> OP_NETWORK_ADD {"add_reserved_ips":["192.0.2.5","192.0.2.6"],"conflicts_check":false,"gateway":"192.0.2.1","gateway6":"2001:db8::1","mac_prefix":"aa:00:01","network":"192.0.2.0/24","network6":"2001:db8::/64","network_name":"net","tags":["a","b"]}
$ gnt-network add --network=192.0.2.0/24 --add-reserved-ips= net
> OP_NETWORK_ADD {"add_reserved_ips":[],"network":"192.0.2.0/24","network_name":"net"}
$ gnt-network modify net
! Please give at least one of the parameters.
= 1
$ gnt-network modify --gateway=none --network6=none --gateway6=none --mac-prefix=none net
> OP_NETWORK_SET_PARAMS {"gateway":"none","gateway6":"none","mac_prefix":"none","network6":"none","network_name":"net"}
$ gnt-network modify --add-reserved-ips=192.0.2.7 --remove-reserved-ips=192.0.2.5 --dry-run net
> OP_NETWORK_SET_PARAMS {"add_reserved_ips":["192.0.2.7"],"dry_run":true,"network_name":"net","remove_reserved_ips":["192.0.2.5"]}
$ gnt-network rename net
! Error: Command rename expects 2 argument(s)
! Usage: gnt-network rename [options...] <network> <new_name>
= 1
$ gnt-network rename net other
> OP_NETWORK_RENAME {"network_name":"net","new_name":"other"}
$ gnt-network connect net
> OP_NETWORK_CONNECT {"group_name":"00000002-aaaa-4bbb-8ccc-000000000002","network_link":"xen-br0","network_mode":"bridged","network_name":"net"}
$ gnt-network connect -N mode=openvswitch,link=switch1,vlan=100 --no-conflicts-check net default second
> OP_NETWORK_CONNECT {"conflicts_check":false,"group_name":"default","network_link":"switch1","network_mode":"openvswitch","network_name":"net","network_vlan":"100"}
> OP_NETWORK_CONNECT {"conflicts_check":false,"group_name":"second","network_link":"switch1","network_mode":"openvswitch","network_name":"net","network_vlan":"100"}
$ gnt-network connect -N colour=red net
! Parameter Error: Unknown NIC parameter 'colour'
! known are: link, mode, vlan
= 1
$ gnt-network disconnect --priority=high net
> OP_NETWORK_DISCONNECT {"group_name":"00000002-aaaa-4bbb-8ccc-000000000002","network_name":"net","priority":-10}
$ gnt-network disconnect net default
> OP_NETWORK_DISCONNECT {"group_name":"default","network_name":"net"}
$ gnt-network remove net
> OP_NETWORK_REMOVE {"network_name":"net"}
$ gnt-network remove --force net
> OP_NETWORK_REMOVE {"force":true,"network_name":"net"}
$ gnt-network add-tags net one two
> OP_TAGS_SET {"kind":"network","name":"net","tags":["one","two"]}
$ gnt-network remove-tags net one
> OP_TAGS_DEL {"kind":"network","name":"net","tags":["one"]}
% fail OP_NETWORK_DISCONNECT ["OpPrereqError", ["Network 'net' is used by instances of group 'default': web.example.org", "wrong_state"]]
$ gnt-network disconnect net default second
! Failure: prerequisites not met for this operation:
! error type: wrong_state, error details:
! Network 'net' is used by instances of group 'default': web.example.org
= 1
> OP_NETWORK_DISCONNECT {"group_name":"default","network_name":"net"}

# only the arguments select: there is no -F
$ gnt-network list -F lan
! Usage
! =====
!   gnt-network list [options...] [network...]
!
! gnt-network: error: no such option: -F
= 2
$ gnt-network list 'free_count < 10'
Network Subnet          Gateway MacPrefix GroupList Tags
tiny    198.51.100.0/30 -       -                   $
$ gnt-network list "l*"
Network Subnet       Gateway   MacPrefix GroupList                 Tags
lan     192.0.2.0/25 192.0.2.1 aa:00:01  default (bridged, br0, -) inside,office
$ gnt-instance list -o name,nic.ips,nic.networks.names,nic.modes,nic.links
Instance        NIC_IPs        NIC_networks_names NIC_modes       NIC_links
web.example.org None,192.0.2.9 [None, 'lan']      bridged,bridged br0,br0
