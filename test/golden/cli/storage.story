# gnt-storage

% result OP_EXT_STORAGE_DIAGNOSE [["san", {"00000004-aaaa-4bbb-8ccc-000000000004": [["/srv/ganeti/extstorage/san", true, "", [["tier", "fast or cheap"], ["replicas", ""]]], ["/usr/share/ganeti/extstorage/san", false, "File 'grow' is missing", []]], "00000003-aaaa-4bbb-8ccc-000000000003": []}, {"default": false, "empty": true}], ["nas", {"00000004-aaaa-4bbb-8ccc-000000000004": [["/srv/ganeti/extstorage/nas", false, "File 'create' is not executable", []]], "00000003-aaaa-4bbb-8ccc-000000000003": [["/srv/ganeti/extstorage/nas", true, "", []]]}, {"default": false}]]
$ gnt-storage diagnose
Provider: san
---
  Node: node2.example.org, status: valid (path: /srv/ganeti/extstorage/san) [parameters: tier, replicas]
    [hidden] path: /usr/share/ganeti/extstorage/san, status: invalid - File 'grow' is missing
  Node: node1.example.org, status: ExtStorage provider not found
  --
  For nodegroup: default --> invalid
  For nodegroup: empty --> valid
.
Provider: nas
---
  Node: node1.example.org, status: valid (path: /srv/ganeti/extstorage/nas) [no parameters]
  Node: node2.example.org, status: invalid - File 'create' is not executable (path: /srv/ganeti/extstorage/nas)
  --
  For nodegroup: default --> invalid
.
> OP_EXT_STORAGE_DIAGNOSE {"output_fields":["name","node_status","nodegroup_status"]}
$ gnt-storage diagnose --output=json
[
  {
    "name": "san",
    "node_status": {
      "00000004-aaaa-4bbb-8ccc-000000000004": [
        [
          "/srv/ganeti/extstorage/san",
          true,
          "",
          [
            [
              "tier",
              "fast or cheap"
            ],
            [
              "replicas",
              ""
            ]
          ]
        ],
        [
          "/usr/share/ganeti/extstorage/san",
          false,
          "File 'grow' is missing",
          []
        ]
      ],
      "00000003-aaaa-4bbb-8ccc-000000000003": []
    },
    "nodegroup_status": {
      "default": false,
      "empty": true
    }
  },
  {
    "name": "nas",
    "node_status": {
      "00000004-aaaa-4bbb-8ccc-000000000004": [
        [
          "/srv/ganeti/extstorage/nas",
          false,
          "File 'create' is not executable",
          []
        ]
      ],
      "00000003-aaaa-4bbb-8ccc-000000000003": [
        [
          "/srv/ganeti/extstorage/nas",
          true,
          "",
          []
        ]
      ]
    },
    "nodegroup_status": {
      "default": false
    }
  }
]
> OP_EXT_STORAGE_DIAGNOSE {"output_fields":["name","node_status","nodegroup_status"]}
% forget OP_EXT_STORAGE_DIAGNOSE
% result OP_EXT_STORAGE_DIAGNOSE [["san", {"default": true, "second": true, "third": false}, [["tier", "fast or cheap"], ["replicas", ""]]], ["nas", {"default": false}, []]]
$ gnt-storage info
san:
  - Valid for nodegroups:
      default
      second
  - Supported parameters:
      tier: fast or cheap
      replicas: $
.
nas:
  - Invalid for all nodegroups
.
> OP_EXT_STORAGE_DIAGNOSE {"output_fields":["name","nodegroup_status","parameters"]}
$ gnt-storage info nas nothing
nas:
  - Invalid for all nodegroups
.
nothing: Not Found
.
> OP_EXT_STORAGE_DIAGNOSE {"output_fields":["name","nodegroup_status","parameters"]}
$ gnt-storage info --output=json san nothing
[
  {
    "name": "san",
    "nodegroup_status": {
      "default": true,
      "second": true,
      "third": false
    },
    "parameters": [
      [
        "tier",
        "fast or cheap"
      ],
      [
        "replicas",
        ""
      ]
    ]
  }
]
> OP_EXT_STORAGE_DIAGNOSE {"output_fields":["name","nodegroup_status","parameters"]}
% forget OP_EXT_STORAGE_DIAGNOSE
% result OP_EXT_STORAGE_DIAGNOSE []
$ gnt-storage diagnose
! No node has a storage provider; install one in the same directory of every node ('gnt-cluster info' shows the search path)
= 1
> OP_EXT_STORAGE_DIAGNOSE {"output_fields":["name","node_status","nodegroup_status"]}
$ gnt-storage info san
! No node has a storage provider; install one in the same directory of every node ('gnt-cluster info' shows the search path)
= 1
> OP_EXT_STORAGE_DIAGNOSE {"output_fields":["name","nodegroup_status","parameters"]}
