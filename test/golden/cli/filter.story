# gnt-filter

$ gnt-filter list
UUID Watermark Priority Predicates Action ReasonTrail
$ gnt-filter info
% put filter {"uuid": "00000031-aaaa-4bbb-8ccc-000000000031", "watermark": 17, "priority": 3, "predicates": [["jobid", [">", "id", "watermark"]]], "action": "PAUSE", "reason_trail": [["gnt:user", "work on the switches", 1700000000000000000], ["luxid", "", 1700000000000000000]]}
% put filter {"uuid": "00000032-aaaa-4bbb-8ccc-000000000032", "watermark": 18, "priority": 0, "predicates": [], "action": ["RATE_LIMIT", 3], "reason_trail": [["luxid", "", 1700000000000000000]]}
$ gnt-filter list
UUID                                 Watermark Priority Predicates                            Action            ReasonTrail
00000031-aaaa-4bbb-8ccc-000000000031 17        3        [['jobid', ['>', 'id', 'watermark']]] PAUSE             [['gnt:user', 'work on the switches', NANOSECONDS], ['luxid', '', NANOSECONDS]]
00000032-aaaa-4bbb-8ccc-000000000032 18        0        []                                    ['RATE_LIMIT', 3] [['luxid', '', NANOSECONDS]]
$ gnt-filter list --no-headers -o uuid,action
00000031-aaaa-4bbb-8ccc-000000000031 PAUSE
00000032-aaaa-4bbb-8ccc-000000000032 ['RATE_LIMIT', 3]
$ gnt-filter list 00000000-aaaa-4bbb-8ccc-000000000000
UUID Watermark Priority Predicates Action ReasonTrail
$ gnt-filter list -o nothing
nothing
??
??
! Warning: Queried for unknown fields nothing
= 14
$ gnt-filter list-fields
Name         Type   Title       Description
action       Custom Action      What happens to such a job
predicates   Custom Predicates  What a job must be like
priority     Custom Priority    Rules with lower numbers come first
reason_trail Custom ReasonTrail Who set the rule and why
uuid         Custom UUID        UUID of the rule
watermark    Custom Watermark   Last job ID when the rule was set
$ gnt-filter info
UUID: 00000031-aaaa-4bbb-8ccc-000000000031
  Watermark: 17
  Priority: 3
  Predicates: [['jobid', ['>', 'id', 'watermark']]]
  Action: PAUSE
  Reason trail: [['gnt:user', 'work on the switches', NANOSECONDS], ['luxid', '', NANOSECONDS]]
UUID: 00000032-aaaa-4bbb-8ccc-000000000032
  Watermark: 18
  Priority: 0
  Predicates: []
  Action: ['RATE_LIMIT', 3]
  Reason trail: [['luxid', '', NANOSECONDS]]
$ gnt-filter info --output=json
[
  {
    "uuid": "00000031-aaaa-4bbb-8ccc-000000000031",
    "watermark": 17,
    "priority": 3,
    "predicates": [
      [
        "jobid",
        [
          ">",
          "id",
          "watermark"
        ]
      ]
    ],
    "action": "PAUSE",
    "reason_trail": [
      [
        "gnt:user",
        "work on the switches",
        NANOSECONDS
      ],
      [
        "luxid",
        "",
        NANOSECONDS
      ]
    ]
  },
  {
    "uuid": "00000032-aaaa-4bbb-8ccc-000000000032",
    "watermark": 18,
    "priority": 0,
    "predicates": [],
    "action": [
      "RATE_LIMIT",
      3
    ],
    "reason_trail": [
      [
        "luxid",
        "",
        NANOSECONDS
      ]
    ]
  }
]
$ gnt-filter info 00000000-aaaa-4bbb-8ccc-000000000000 00000032-aaaa-4bbb-8ccc-000000000032
UUID: 00000032-aaaa-4bbb-8ccc-000000000032
  Watermark: 18
  Priority: 0
  Predicates: []
  Action: ['RATE_LIMIT', 3]
  Reason trail: [['luxid', '', NANOSECONDS]]
! Warning: filter '00000000-aaaa-4bbb-8ccc-000000000000' does not exist and is left out
% call ReplaceFilter "00000000-aaaa-4bbb-8ccc-000000000000"
$ gnt-filter add
00000000-aaaa-4bbb-8ccc-000000000000
< ["ReplaceFilter",null,0,[],"CONTINUE",[],null]
$ gnt-filter add --priority=3 --predicates '[["jobid", [">", "id", "watermark"]]]' --action=PAUSE --reason='work on the switches'
00000000-aaaa-4bbb-8ccc-000000000000
< ["ReplaceFilter",null,3,[["jobid",[">","id","watermark"]]],"PAUSE",[["gnt:user","work on the switches",NANOSECONDS]],null]
$ gnt-filter add --action 'RATE_LIMIT 3'
00000000-aaaa-4bbb-8ccc-000000000000
< ["ReplaceFilter",null,0,[],["RATE_LIMIT",3],[],null]
$ gnt-filter replace --action=REJECT 00000000-aaaa-4bbb-8ccc-000000000000
00000000-aaaa-4bbb-8ccc-000000000000
< ["ReplaceFilter","00000000-aaaa-4bbb-8ccc-000000000000",0,[],"REJECT",[],null]
$ gnt-filter add --priority=first
! Usage
! =====
!   gnt-filter add [options...]
!
! gnt-filter: error: option --priority: invalid integer value: 'first'
= 2
$ gnt-filter add --predicates='[['
! Usage
! =====
!   gnt-filter add [options...]
!
! gnt-filter: error: option --predicates: not valid JSON: Expecting value or ']': line 1 column 3 (char 2)
= 2
$ gnt-filter add now
! Error: Command add expects no arguments
! Usage: gnt-filter add [options...]
= 1
% call ReplaceFilter ["OpPrereqError", ["Not a filter rule", "wrong_input"]]
$ gnt-filter add --action=JUMP
! Failure: prerequisites not met for this operation:
! error type: wrong_input, error details:
! Not a filter rule
= 1
< ["ReplaceFilter",null,0,[],"JUMP",[],null]
% call DeleteFilter null
$ gnt-filter delete 00000000-aaaa-4bbb-8ccc-000000000000
< ["DeleteFilter","00000000-aaaa-4bbb-8ccc-000000000000",null]
$ gnt-filter delete
! Error: Command delete expects 1 argument(s)
! Usage: gnt-filter delete [options...] <filter>
= 1
$ gnt-filter list 00000031-aaaa-4bbb-8ccc-000000000031
UUID                                 Watermark Priority Predicates                            Action ReasonTrail
00000031-aaaa-4bbb-8ccc-000000000031 17        3        [['jobid', ['>', 'id', 'watermark']]] PAUSE  [['gnt:user', 'work on the switches', NANOSECONDS], ['luxid', '', NANOSECONDS]]
$ gnt-filter list 'priority > 1'
UUID                                 Watermark Priority Predicates                            Action ReasonTrail
00000031-aaaa-4bbb-8ccc-000000000031 17        3        [['jobid', ['>', 'id', 'watermark']]] PAUSE  [['gnt:user', 'work on the switches', NANOSECONDS], ['luxid', '', NANOSECONDS]]
$ gnt-filter list -o json:uuid,action
[
  {
    "uuid": "00000031-aaaa-4bbb-8ccc-000000000031",
    "action": "PAUSE"
  },
  {
    "uuid": "00000032-aaaa-4bbb-8ccc-000000000032",
    "action": [
      "RATE_LIMIT",
      3
    ]
  }
]
