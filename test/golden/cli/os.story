# gnt-os

% result OP_OS_DIAGNOSE [["debian", ["minimal", "full"]], ["noop", []]]
$ gnt-os list
Name          $
debian+minimal
debian+full   $
noop          $
> OP_OS_DIAGNOSE {"output_fields":["name","variants"]}
$ gnt-os list --no-headers
debian+minimal
debian+full   $
noop          $
> OP_OS_DIAGNOSE {"output_fields":["name","variants"]}
$ gnt-os list --output=json
[
  {
    "name": "debian+minimal"
  },
  {
    "name": "debian+full"
  },
  {
    "name": "noop"
  }
]
> OP_OS_DIAGNOSE {"output_fields":["name","variants"]}
% forget OP_OS_DIAGNOSE
% result OP_OS_DIAGNOSE [["debian", true, ["minimal"], {"00000003-aaaa-4bbb-8ccc-000000000003": [["/srv/ganeti/os/debian", true, "", ["minimal"], [["mirror", "where from"]], [15, 20], true], ["/usr/share/ganeti/os/debian", false, "no create script", [], [], [], false]], "00000004-aaaa-4bbb-8ccc-000000000004": []}, false, true, {"00000003-aaaa-4bbb-8ccc-000000000003": "12.1"}], ["broken", false, [], {"00000004-aaaa-4bbb-8ccc-000000000004": [["/srv/ganeti/os/broken", false, "API version file not found", [], [], [], false]]}, true, false, {}]]
$ gnt-os diagnose
OS: debian [global status: valid] [blacklisted]
  Variants: [minimal]
  Node: node1.example.org, status: valid (path: /srv/ganeti/os/debian) [API versions: 15, 20] [variants: minimal] [parameters: mirror] [version: 12.1] [trusted]
    [hidden] path: /usr/share/ganeti/os/debian, status: invalid - no create script
  Node: node2.example.org, status: OS not found
.
OS: broken [global status: invalid] [hidden]
  Node: node2.example.org, status: invalid - API version file not found (path: /srv/ganeti/os/broken)
.
= 1
> OP_OS_DIAGNOSE {"output_fields":["name","valid","variants","node_status","hidden","blacklisted","os_version"]}
% forget OP_OS_DIAGNOSE
% result OP_OS_DIAGNOSE [["noop", true, ["a", "b"], [["p", "what it is"]], [20, 15], false, false, {}, {}, true, {"00000003-aaaa-4bbb-8ccc-000000000003": "1.0", "00000004-aaaa-4bbb-8ccc-000000000004": "1.1"}], ["bad", false, [], [], [], false, true, {}, {}, false, {}]]
$ gnt-os info
noop:
  - valid: True
  - hidden: False
  - blacklisted: False
  - version: 1.0, 1.1 (differs between nodes)
  - API versions:
    - 15
    - 20
  - variants:
    - a
    - b
  - parameters:
    - p: what it is
  - trusted: True
.
bad:
  - valid: False
  - hidden: True
  - blacklisted: False
  - trusted: False
.
> OP_OS_DIAGNOSE {"output_fields":["name","valid","variants","parameters","api_versions","blacklisted","hidden","os_hvp","osparams","trusted","os_version"]}
$ gnt-os info noop nothing debian
noop:
  - valid: True
  - hidden: False
  - blacklisted: False
  - version: 1.0, 1.1 (differs between nodes)
  - API versions:
    - 15
    - 20
  - variants:
    - a
    - b
  - parameters:
    - p: what it is
  - trusted: True
.
nothing: $
.
debian: $
  OS-specific hypervisor parameters: $
  OS parameters: $
    mirror: http://deb.example.org
.
! Warning: no node has an operating system 'nothing'
! Warning: no node has an operating system 'debian'
> OP_OS_DIAGNOSE {"output_fields":["name","valid","variants","parameters","api_versions","blacklisted","hidden","os_hvp","osparams","trusted","os_version"]}
$ gnt-os modify noop
! At least one of OS parameters or hypervisor parameters must be passed
= 1
$ gnt-os modify -H kvm:acpi=false -O mirror=x --hidden=yes --blacklisted=no noop
> OP_CLUSTER_SET_PARAMS {"blacklisted_os":[["remove","noop"]],"hidden_os":[["add","noop"]],"os_hvp":{"noop":{"kvm":{"acpi":false}}},"osparams":{"noop":{"mirror":"x"}}}
$ gnt-os modify --os-parameters-private=key=1 noop
> OP_CLUSTER_SET_PARAMS {"osparams_private_cluster":{"noop":{"key":"1"}}}
