package model

// Rule is one rule of the takeover. Its number is that in docs/takeover.md, which says what it is and why.
type Rule int

const (
	RuleOptimisticWrites Rule = iota + 1
	RuleTermFirst
	RuleOwnWriteUnanswered
	RuleNewIdentity
	RuleProofFromStart
	RuleDeadline
	RuleDrainThenRelease
	RulePublishAccepted
	RuleClosedVersions
	RuleNeverBack
	RuleOtherReadersKept
	RuleDenialsPublished
	RuleAnnounce
	RuleInitialWhole
	RuleEndAnnounced
	RuleFollowPublished
	RuleHoleUntilPassed
	RuleHoleNotStored
	RuleIntroducedOnDisk
	RuleInherited
	RuleReadyFirst
	RuleBeginWhereRead
	RuleSilentToPublished
	RuleAcceptedByVersion
	RulePerhapsEmitted
	RuleHoleRestates
	RuleHoleToView
	RuleReadAgain
	RuleSetCountsAccepted
	RuleSetBegunAnew
	RuleSetOwedUntilWhole

	lastRule = RuleSetOwedUntilWhole
)

var ruleNames = [...]string{
	RuleOptimisticWrites:   "optimistic-writes",
	RuleTermFirst:          "term-first",
	RuleOwnWriteUnanswered: "own-write-unanswered",
	RuleNewIdentity:        "new-identity",
	RuleProofFromStart:     "proof-from-start",
	RuleDeadline:           "deadline",
	RuleDrainThenRelease:   "drain-then-release",
	RulePublishAccepted:    "publish-accepted",
	RuleClosedVersions:     "closed-versions",
	RuleNeverBack:          "never-back",
	RuleOtherReadersKept:   "other-readers-kept",
	RuleDenialsPublished:   "denials-published",
	RuleAnnounce:           "announce",
	RuleInitialWhole:       "initial-whole",
	RuleEndAnnounced:       "end-announced",
	RuleFollowPublished:    "follow-published",
	RuleHoleUntilPassed:    "hole-until-passed",
	RuleHoleNotStored:      "hole-not-stored",
	RuleIntroducedOnDisk:   "introduced-on-disk",
	RuleInherited:          "inherited",
	RuleReadyFirst:         "ready-first",
	RuleBeginWhereRead:     "begin-where-read",
	RuleSilentToPublished:  "silent-to-published",
	RuleAcceptedByVersion:  "accepted-by-version",
	RulePerhapsEmitted:     "perhaps-emitted",
	RuleHoleRestates:       "hole-restates",
	RuleHoleToView:         "hole-to-view",
	RuleReadAgain:          "read-again",
	RuleSetCountsAccepted:  "set-counts-accepted",
	RuleSetBegunAnew:       "set-begun-anew",
	RuleSetOwedUntilWhole:  "set-owed-until-whole",
}

func (r Rule) String() string { return ruleNames[r] }
