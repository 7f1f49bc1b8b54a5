package tokens

import ("os";"os/exec";"bufio";"encoding/json";"strings";"path/filepath";
	"fmt"
	"math/rand"
	"testing"
	"time"
)

func TestZZ(t *testing.T) {
	t0 := time.Now()
	c := borrow()
	fmt.Println("init", time.Since(t0), len(c.class))
	t0 = time.Now()
	bad := 0
	for id := range uint32(vocabularySize) {
		h := c.halves(id)
		if h.whole() && c.size(id) > 1 {
			bad++
			if bad < 20 {
				fmt.Printf("%q\n", c.token(id))
			}
		}
	}
	fmt.Println("halves", time.Since(t0), bad)
	for _, s := range []string{"hello world", " it's DON'T", "中ABC", "a \n b"} {
		fmt.Println(s, Count(s), referenceCount(s))
	}
	alpha := []rune("aabcetsrmldvSTRE''ſÀÁéß中日本ʰ̡́ \n\r\t\u00a0\u3000/!.-=_\"1234٣½Ⅷ😀👍\u200d\ufe0f\ufffd\x7f\x00ǅ가한")
	bad = 0
	for seed := range 200000 {
		r := rand.New(rand.NewSource(int64(seed)))
		n := r.Intn(40)
		rs := make([]rune, n)
		k := 1 + r.Intn(len(alpha))
		off := r.Intn(len(alpha))
		for i := range rs {
			rs[i] = alpha[(off+r.Intn(k))%len(alpha)]
		}
		s := string(rs)
		if a, b := Count(s), referenceCount(s); a != b {
			bad++
			if bad < 10 {
				t.Errorf("%q %d %d", s, a, b)
			}
		}
	}
	fmt.Println("bad", bad)
}
func emit(name string, ss []string) {
 f,_:=os.Create("/tmp/tk/"+name+".in"); w:=bufio.NewWriter(f); e:=json.NewEncoder(w); for _,s:=range ss { e.Encode(s) }; w.Flush(); f.Close()
 cmd:=exec.Command("sh","-c","cd /tmp/tk && node oracle.mjs < "+name+".in > "+name+".out"); t0:=time.Now(); if o,err:=cmd.CombinedOutput();err!=nil{panic(string(o))}
 d:=time.Since(t0)
 b,_:=os.ReadFile("/tmp/tk/"+name+".out"); ls:=strings.Split(strings.TrimSpace(string(b)),"\n"); bad:=0
 for i,s:=range ss { if fmt.Sprint(Count(s))!=ls[i] { bad++; if bad<40 { fmt.Printf("DIFF %s %.100q ours %d oracle %s\n",name,s,Count(s),ls[i]) } } }
 fmt.Println(name,len(ss),"bad",bad,d)
}
func TestOracle(t *testing.T){
 var ss []string
 // all code points
 probe:=func(r rune)string{ c:=string(r); return "a"+c+"a B"+c+"B"+c+"b "+c+c+"x 1"+c+"1"+c+"1"+c+"1 !"+c+"! "+c+"Q "+c+c+"'s \n"+c+"\n"+c+"/"+c+"  "+c+"AB"+c+"cD \t"+c }
 for r:=rune(0);r<=0x10ffff;r++{ if r>=0xd800&&r<=0xdfff{continue}; ss=append(ss,probe(r)) }
 emit("cps",ss); ss=nil
 for seed:=range 300000 { r:=rand.New(rand.NewSource(int64(seed))); n:=r.Intn(30); rs:=make([]rune,n); for i:=range rs { switch r.Intn(4){case 0: rs[i]=rune(r.Intn(128)); case 1: rs[i]=rune(r.Intn(0x500)); case 2: rs[i]=rune(r.Intn(0x3100));case 3: rs[i]=rune(r.Intn(0x20000)) }; if rs[i]>=0xd800&&rs[i]<=0xdfff{rs[i]='\u2028'} }
  ss=append(ss,string(rs)) }
 emit("rand",ss); ss=nil
 alpha:=[]rune("aabcetsrmldvSTRE''ſÀÁéß中日本ʰ̡́ \n\r\t\u00a0\u3000/!.-=_\"1234٣½Ⅷ😀👍\u200d\ufe0f\ufffd\x7f\x00ǅ가한")
 for seed:=range 300000 { r:=rand.New(rand.NewSource(int64(seed))); n:=r.Intn(40); rs:=make([]rune,n); k:=1+r.Intn(len(alpha)); off:=r.Intn(len(alpha)); for i:=range rs { rs[i]=alpha[(off+r.Intn(k))%len(alpha)] }
  ss=append(ss,string(rs)) }
 emit("alpha",ss); ss=nil
 fs,_:=filepath.Glob("/work/shared/transcripts/*")
 for _,f:=range fs { b,_:=os.ReadFile(f); ls:=strings.Split(string(b),"\n"); ss=append(ss,ls...); for i:=0;i+10<len(ls);i+=10 { ss=append(ss,strings.Join(ls[i:i+10],"\n")) } }
 emit("trans",ss); ss=nil
 for b:=rune(0);b<0x3000;b++ { if b>300 && b%37!=0 {continue}; for _,n:=range []int{17,50,127,128,129,200,333} { ss=append(ss,strings.Repeat(string(b),n)) } }
 v:=shared().vocabulary
 for seed:=range 100000 { r:=rand.New(rand.NewSource(int64(seed))); s:=""; for range r.Intn(6) { s+=string(v.token(uint32(r.Intn(vocabularySize)))) }; s=strings.ToValidUTF8(s,"é"); ss=append(ss,s) }
 for seed:=range 20000 { r:=rand.New(rand.NewSource(int64(seed))); s:=""; al:=[]string{"abc","ab","aeiou","中文字","-=","=*","\n\t","  \t","é","ABCDEF","!?.","😀","़"}[r.Intn(13)]; rs:=[]rune(al); for range r.Intn(300) { s+=string(rs[r.Intn(len(rs))]) };  ss=append(ss,s) }
 emit("runs",ss); ss=nil
}
