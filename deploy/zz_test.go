package deploy_test
import ("testing";"time";"context";"fmt"
"github.com/nats-io/nats-server/v2/server";"github.com/nats-io/nats.go";"lcm/natslog")
func TestZ(t *testing.T){
 o:=&server.Options{JetStream:true,StoreDir:t.TempDir(),Port:-1,Host:"127.0.0.1",NoSigs:true,NoLog:true,MaxPayload:8<<20}
 o.Users=[]*server.User{{Username:"op",Password:"x"},{Username:"a",Password:"x",Permissions:&server.Permissions{Publish:&server.SubjectPermission{Allow:[]string{"lcm.in.acme.>"}},Subscribe:&server.SubjectPermission{Allow:[]string{"_INBOX.acme.>"}}}}}
 s,err:=server.NewServer(o); if err!=nil{t.Fatal(err)}
 s.Start(); defer s.Shutdown(); s.ReadyForConnections(5*time.Second)
 op,err:=nats.Connect(s.ClientURL(),nats.UserInfo("op","x")); if err!=nil{t.Fatal(err)}
 l,err:=natslog.Open(context.Background(),op,natslog.Options{Create:true}); if err!=nil{t.Fatal(err)}
 a,_:=nats.Connect(s.ClientURL(),nats.UserInfo("a","x"),nats.CustomInboxPrefix("_INBOX.acme"))
 a.PublishRequest("lcm.in.acme.s","lcm.ev.3.victim.s",[]byte("hi")); a.Flush()
 time.Sleep(200*time.Millisecond)
 n,err:=l.LastSeq(context.Background()); fmt.Println("LOG LAST",n,err)
 if n>0 {r,err:=l.Read(context.Background(),1);fmt.Printf("%s %q %v\n",r.Subject,r.Data,err)}
 a.PublishRequest("lcm.in.acme.s","$JS.API.STREAM.DELETE.LCM_TASK",[]byte("hi")); a.Flush()
 time.Sleep(200*time.Millisecond)
 _,err=natslog.Open(context.Background(),op,natslog.Options{}); fmt.Println(err)
}
